// Written by "go generate ./gateway" from the Go types.

/** SessionEvent is one thing that happened in a session; its type determines the payload. A newer Sojourn may send types that are not here: a switch needs a default case. */
export type SessionEvent =
  | { type: "block:upsert"; payload: BlockUpsert; context: Context }
  | { type: "block:delta"; payload: BlockDelta; context: Context }
  | { type: "block:placed"; payload: BlockPlaced; context: Context }
  | { type: "metadata:update"; payload: MetadataUpdate; context: Context }
  | { type: "subagent:spawned"; payload: SubagentSpawned; context: Context }
  | { type: "subagent:completed"; payload: SubagentCompleted; context: Context }
  | { type: "session:initialized"; payload: SessionInitialized; context: Context }
  | { type: "session:idle"; payload: SessionIdle; context: Context }
  | { type: "session:closed"; payload: SessionClosed; context: Context }
  | { type: "ee:creating"; payload: Environment; context: Context }
  | { type: "ee:ready"; payload: Environment; context: Context }
  | { type: "ee:terminated"; payload: Environment; context: Context }
  | { type: "ee:error"; payload: Environment; context: Context }
  | { type: "ee:health_check"; payload: Environment; context: Context }
  | { type: "query:started"; payload: Query; context: Context }
  | { type: "query:completed"; payload: Query; context: Context }
  | { type: "query:failed"; payload: Query; context: Context }
  | { type: "query:interrupted"; payload: Query; context: Context }
  | { type: "message:folded"; payload: MessageRef; context: Context }
  | { type: "message:own-turn"; payload: MessageRef; context: Context }
  | { type: "file:created"; payload: EventFile; context: Context }
  | { type: "file:modified"; payload: EventFile; context: Context }
  | { type: "file:deleted"; payload: EventFile; context: Context }
  | { type: "transcript:changed"; payload: Transcript; context: Context }
  | { type: "transcript:written"; payload: Transcript; context: Context }
  | { type: "permission:requested"; payload: PermissionRequested; context: Context }
  | { type: "permission:resolved"; payload: PermissionResolved; context: Context }
  | { type: "options:update"; payload: OptionsUpdate; context: Context }
  | { type: "status"; payload: Status; context: Context }
  | { type: "log"; payload: Log; context: Context }
  | { type: "error"; payload: EventError; context: Context }
  | { type: "native"; payload: Native; context: Context }
  ;

/** BlockUpsert creates the block or merges the fields given into it. */
export interface BlockUpsert {
  block: Omit<Block, "type"> & { type: BlockType | "" };
}

/** Block is one block, whole or partial. In an upsert a field that is nil (or "", for ID, Type, Status and the names) is "not given" and leaves the existing block's field alone; in a conversation state every field that the block's type has is filled (content "", input {}, output null, isError false). ID and Type are always required. */
export interface Block {
  id: string;
  type: BlockType;
  status?: BlockStatus;
  timestamp?: string;
  /** Source is "server" on blocks that Sojourn itself added, else empty. */
  source?: Source;
  metadata?: Record<string, unknown>;
  /** Usage is what the model call took that made this block and those behind it, up to the next block with one; nil where the agent does not tell, or has not written it. */
  usage?: Usage;
  /** Content is the text of user_message, assistant_text, thinking and skill_load. */
  content?: string;
  /** Parts is the content of a user message that is more than text. */
  parts?: Part[];
  /** Model made the text (assistant_text). */
  model?: string;
  /** Summary are the headings that some agents give their thinking, one a line. */
  summary?: string;
  /** ToolName is for tool_use, Input for tool_use and subagent. */
  toolName?: string;
  toolUseId?: string;
  input?: unknown;
  /** Execution is for tool_use and subagent. */
  executionStatus?: Execution;
  /** Output is for tool_result and subagent: a string, or the agent's own array of parts, or null. */
  output?: unknown;
  isError?: boolean;
  durationMs?: number;
  /** SubagentID, Name and Description are for subagent. */
  subagentId?: string;
  name?: string;
  description?: string;
  /** Subtype is for system, Message for system and error, Code for error. */
  subtype?: string;
  message?: string;
  code?: string;
  /** SkillName is for skill_load. */
  skillName?: string;
}

/** Usage counts model tokens. */
export interface Usage {
  inputTokens: number;
  outputTokens: number;
  cacheReadTokens?: number;
  cacheWriteTokens?: number;
}

/** Part is one piece of a user message: text, or an image by base64 or URL. */
export interface Part {
  /** Type is text or image. */
  type: string;
  text?: string;
  mediaType?: string;
  /** Data is base64. */
  data?: string;
  url?: string;
}

/** BlockDelta appends text to the content of a block. */
export interface BlockDelta {
  blockId: string;
  delta: string;
}

/** BlockPlaced means that a block's place, behind those that were created before it, is not in the agent's transcripts. It is the server's and changes no conversation: Sojourn's transcript keeps it. */
export interface BlockPlaced {
  blockId: string;
}

/** MetadataUpdate reports usage and cost. With Total, Usage and CostUSD are the agent process's own totals so far; without, they are the increments since the last report. */
export interface MetadataUpdate {
  total?: boolean;
  usage?: Usage;
  costUSD?: number;
  model?: string;
  /** Calls counts the model calls of this conversation that have begun since the last report. An agent that can't tell one from another reports none. */
  calls?: number;
  /** Extra carries what an agent reports beyond that (rate limits, retries). */
  extra?: unknown;
}

/** SubagentSpawned means that a subagent began. For a native subagent the context's conversation is the parent's; ChildSessionID is set only for children that are themselves Sojourn sessions. */
export interface SubagentSpawned {
  toolUseId: string;
  agentId?: string;
  prompt: string;
  subagentType?: string;
  description?: string;
  childSessionId?: string;
}

/** SubagentCompleted means that a subagent ended. Usage is a child session's, its own. */
export interface SubagentCompleted {
  toolUseId: string;
  agentId?: string;
  status: SubagentResult;
  output?: string;
  durationMs?: number;
  usage?: Usage;
  childSessionId?: string;
}

/** SessionInitialized is the first event of a run of the session. */
export interface SessionInitialized {
  agent: string;
  profile?: string;
  title?: string;
  parent?: string;
  reopened?: boolean;
}

/** SessionIdle means that the agent finished its turn in this conversation; the reducer completes what is pending there. */
export interface SessionIdle {
  stopReason?: string;
  interrupted?: boolean;
  /** Unheard: the agent was interrupted before it reacted to its prompt. It may not have stored it, or not be in order: its process is ended. */
  unheard?: boolean;
  /** Error is set when the agent's last turn failed (a model API error, say). */
  error?: ErrorInfo;
}

/** ErrorInfo is an error on the wire. */
export interface ErrorInfo {
  message: string;
  code?: string;
  /** Field names the input field at fault, for bad input. */
  field?: string;
  data?: unknown;
}

/** SessionClosed is the last event of a run of the session. */
export interface SessionClosed {
  reason?: string;
}

/** Environment is the body of the ee:* events (execution environment). */
export interface Environment {
  sandboxId?: string;
  host?: string;
  provider?: string;
  /** Epoch is the session's epoch under which the sandbox was made. */
  epoch?: number;
  /** Status is starting, ready, unhealthy or terminated. */
  status?: string;
  restartCount?: number;
  /** LastHealthCheck is the time of the last check; zero for never. */
  lastHealthCheck?: string;
  /** Reason is why it ended: manual, idle, slot, drain, age, parent, terminated, or unhealthy for one that was lost. */
  reason?: string;
  message?: string;
}

/** Query is the body of the query:* events: one execution, that is, one or more messages answered by the agent in one turn. */
export interface Query {
  executionId: string;
  messageIds?: string[];
  /** Message is the prompt, shortened for display (query:started only). */
  message?: string;
  durationMs?: number;
  error?: ErrorInfo;
  reason?: string;
  result?: QueryResult;
  /** Queued: it ended in the queue, before it began. Another one may run. */
  queued?: boolean;
}

/** QueryResult is the result of an execution. */
export interface QueryResult {
  /** Response is the text of the last assistant_text block of the main conversation. In query events it is truncated at 16 KiB. */
  response: string;
  /** Truncated reports whether Response is truncated. */
  truncated?: boolean;
  /** ResponseBlockID is the block of the main conversation whose content is the whole response; empty if there is none. */
  responseBlockId?: string;
  stopReason?: string;
  usage: Usage;
  /** CostUSD is the turn's cost as the agent reported it, or by the worker's prices if it reports none; nil if it is unknown. */
  costUSD?: number;
  /** Ticks counts the model calls of the main conversation; nil for an agent that reports none. */
  ticks?: number;
  /** LastSeq is the sequence number of the last event of the agent's turn. */
  lastSeq?: number;
}

/** MessageRef names a message that was passed to a running agent. */
export interface MessageRef {
  messageId: string;
}

/** File is the body of the file:* events; Path is relative to the workspace. */
export interface EventFile {
  path: string;
  content?: string;
  size?: number;
  sha256?: string;
}

/** Transcript is the body of the transcript:* events. */
export interface Transcript {
  /** ID is main or the subagent's id. */
  id: string;
  /** Offset is the length in bytes of what is archived (changed) or restored into a sandbox (written). */
  offset: number;
  sha256?: string;
}

/** PermissionRequested means that the agent asks before it runs a tool, or asks the user a question. */
export interface PermissionRequested {
  requestId: string;
  toolName?: string;
  toolUseId?: string;
  input?: unknown;
  title?: string;
  /** Questions is set when the request is a question to the user. */
  questions?: unknown;
}

/** PermissionResolved has the answer to a request; Decision is allow, deny or cancelled. By is a person's name, ByUser, ByPolicy or ByDeadline; "" if the agent itself decided. */
export interface PermissionResolved {
  requestId: string;
  decision: string;
  by?: string;
  message?: string;
}

/** OptionsUpdate reports changed options; nil fields did not change. */
export interface OptionsUpdate {
  title?: string;
  model?: string;
  permissionMode?: string;
  metadata?: Record<string, unknown>;
  tags?: string[];
}

/** Status is the unified status event: the state of the session's runtime, and, as the first append of every attempt, the fence of the stream. */
export interface Status {
  state?: string;
  epoch?: number;
  attempt?: number;
  runtime?: Runtime;
  message?: string;
}

/** Runtime is what currently runs for a session. */
export interface Runtime {
  isLoaded: boolean;
  sandbox: Environment | null;
}

/** Log is a line for operators; Level is debug, info, warn or error. */
export interface Log {
  level: string;
  message: string;
  data?: unknown;
}

/** Error is a fault that is not a block of the conversation. MessageID is the message that the agent's server refused to take; "" for any other fault. */
export interface EventError {
  message: string;
  code?: string;
  /** Field names the input field at fault, for bad input. */
  field?: string;
  data?: unknown;
  messageId?: string;
}

/** Native keeps a native event that the translator does not know, raw: Raw when the record is JSON, else Line. A Line that is not valid UTF-8 travels as "lineBytes" in base64 beside its readable approximation, so nothing is lost. A Raw that is not JSON travels as Line: keeping the unknown must never fail. */
export interface Native {
  agent?: string;
  dir?: Dir;
  kind?: string;
  raw?: unknown;
  line?: string;
  /** LineBytes is the line in base64, where that is not UTF-8. */
  lineBytes?: string;
}

/** Context locates an event. It is enriched on the way to the subscriber; the payload never changes. */
export interface Context {
  sessionId?: string;
  conversationId?: string;
  source?: Source;
  /** Timestamp is the stamp of the native record behind the event, or, for server events, the time of writing. */
  timestamp?: string;
  /** Seq is dense per session and starts at 1; 0 means not yet appended. */
  seq?: number;
}

/** Options are the settings with which a session is created. */
export interface Options {
  /** Agent is the adapter's name, such as claude. Required. */
  agent: string;
  /** Profile is the id of an agent profile. Default: none. */
  profile?: string;
  /** Title is shown in lists. Default: the first message, truncated. */
  title?: string;
  /** Workspace is a folder on the sandbox's host to work in, in place. Default: an empty folder for this session. */
  workspace?: string;
  /** Sandbox is [SandboxOwn] or, for a child session, [SandboxParent]. Default: the parent's Sandbox, then SandboxOwn. */
  sandbox?: string;
  /** Model is the agent's name for the model. Default: the profile's, then the agent's. */
  model?: string;
  /** SystemPrompt is added to the agent's own, behind what the profile adds. At most MaxSystemPrompt bytes. Default: none. */
  systemPrompt?: string;
  /** Permission is the default answer to permission requests. Default: the profile's, then allow. */
  permission?: Answer;
  /** Permissions answer requests before the profile's rules and the default answer do. Default: none. */
  permissions?: Rule[];
  /** PermissionDeadline answers what no person answers in time. Default: the profile's, then none. */
  permissionDeadline?: Deadline;
  /** Park is how long a turn waits for a person before its agent is stopped and its sandbox given up, until the answer arrives. Default: the profile's, then an hour. */
  parkMs?: number;
  /** UnknownEffects decide, before the profile's rules do, what a turn does that was lost with its host or runner during a call, whose effect is then unknown: inform the agent and continue, ask a person, or fail with TypeEffectUnknown. Default: continue. */
  unknownEffects?: EffectRule[];
  /** Metadata is the caller's data: any JSON values. */
  metadata?: Record<string, unknown>;
  tags?: string[];
  tenant?: string;
  /** IdleTimeoutMS ends the sandbox after so many idle milliseconds; the session remains. Default: 15 minutes. */
  idleTimeoutMs?: number;
  /** NoProgressMS ends a turn whose agent is silent for so many milliseconds: it is interrupted and fails with TypeNoProgress. The wait for a person's answer does not count. Default: DefaultNoProgress. */
  noProgressMs?: number;
  /** Limits bound what the session uses. When one is reached, a running turn is interrupted and queued messages don't run: the session is StatusPaused. Once the limit is raised the agent is asked to continue. Default: none. */
  limits?: Limits;
  /** MaxTicks is Message.MaxTicks of messages that have none. Default: no limit. */
  maxTicks?: number;
  /** Spawn lets the agent spawn child sessions by itself, and ask, list and stop them, by tools of an MCP server named sojourn. They have the session's rules, and may spawn too, down to MaxDepth. Default: it can't. */
  spawn?: boolean;
  /** SpawnProfiles are the agent profiles that the agent may spawn with, beside the session's own: a profile may have tools and credentials that the session does not. Default: none. */
  spawnProfiles?: string[];
  /** Tools are those of your programs that the agent may call. Children do not have them. Default: none. */
  tools?: Tool[];
}

/** Rule answers requests for some tools. In Tool and Match a * matches any text, and all else itself. */
export interface Rule {
  /** Tool is the tool's name in requests, as events have it (Bash, bash, shell, run_shell_command); case does not count. Required. */
  tool: string;
  /** Match is compared with what the tool is to do: a command, or a path or an address. Default: anything. A rule that allows must match each of the commands of a shell line and each path, and matches none with a redirection, a substitution or a .. in it, whose effect a pattern can't bound; one that denies or asks matches where any of them does, or any other text of the request. It matches a command also without quotes and backslashes, with single blanks, and behind what only runs another one (sudo, env, A=b, then). */
  match?: string;
  /** Answer is allow, ask or deny. Required. */
  answer: Answer;
  /** Reason is passed to the agent with a denial. Default: that a rule denies it. */
  reason?: string;
}

/** Deadline answers a request that no person has answered in time. */
export interface Deadline {
  /** AfterMS is how long a request waits for a person, in milliseconds. 0: without limit. */
  afterMs?: number;
  /** Answer is allow or deny. Default: deny. */
  answer?: Answer;
}

/** EffectRule is the verdict for the calls of some tools. Tool and Match are as in [Rule]. */
export interface EffectRule {
  tool: string;
  match?: string;
  /** Then is continue, ask or fail. Required. */
  then: OnLoss;
}

/** Limits bound what a session uses over its whole life. 0 is no limit. */
export interface Limits {
  /** CostUSD bounds the cost of the session's turns and of its children. A child has a part of the remainder, which counts as used until it ends. An agent that reports its cost only after its turn is bound by what it has reported; one that reports none, by the worker's prices. */
  costUSD?: number;
  /** Tokens bounds input and output tokens together, those of children included: a child has a part of the remainder, as of CostUSD. */
  tokens?: number;
  /** ModelCalls bounds the calls of models by the session's own conversation: not by native subagents, nor by children. It doesn't bind an agent that reports no model calls. */
  modelCalls?: number;
  /** Turns bounds how many messages are answered. */
  turns?: number;
  /** WorkMS bounds how long turns run on a host, in milliseconds, including waits for a person. */
  workMs?: number;
}

/** Tool is a tool of a program of yours that the agent of a session may call: the call becomes an activity on the program's task queue. Package tools makes such tools, and runs their handlers. */
export interface Tool {
  /** Name is the tool's: letters, digits, "_" and "-", at most 48. The agent sees it as one of the MCP server sojourn. Required. */
  name: string;
  /** Description is what the model reads of it. Required. */
  description: string;
  /** Input is the JSON schema of its arguments, of type object. Default: any object. */
  input?: unknown;
  /** TaskQueue is where the program waits for calls. Required. */
  taskQueue: string;
  /** TimeoutMS bounds a call in milliseconds, with its wait for a program that is away. Default: DefaultToolTimeout. */
  timeoutMs?: number;
  /** Heartbeats: the handler's activity reports every half minute that it is at work, so that a program that was lost is noticed within a minute, and not at the end of the call's time. Package tools sets it, whose handlers do. */
  heartbeats?: boolean;
  /** Idempotent: a call may be made again if the program was lost while it ran. Default: the agent is told that the call's effect is unknown. */
  idempotent?: boolean;
}

/** Configure changes a session; nil fields don't change. */
export interface Configure {
  title?: string;
  model?: string;
  permission?: Answer;
  /** Permissions replaces the session's own rules, PermissionDeadline its deadline. A running turn keeps those with which it started. */
  permissions?: Rule[];
  permissionDeadline?: Deadline;
  /** Park as in Options; 0 is the default again. A running turn keeps the one with which it started. */
  parkMs?: number;
  /** UnknownEffects replaces the session's own rules; a running turn keeps those too. */
  unknownEffects?: EffectRule[];
  metadata?: Record<string, unknown>;
  /** Tags replaces the tags when not nil. */
  tags?: string[];
  /** IdleTimeout in milliseconds. */
  idleTimeoutMs?: number;
  /** Limits changes the limits that are set in it, also for a running turn. */
  limits?: LimitsChange;
  /** MaxTicks as in Options, 0 for none; for the messages that run from now on. */
  maxTicks?: number;
}

/** Change is a change of some limits; nil keeps one, 0 removes it. */
export interface LimitsChange {
  costUSD?: number;
  tokens?: number;
  modelCalls?: number;
  turns?: number;
  workMs?: number;
}

/** Message is one message to the agent. */
export interface Message {
  /** ID makes a repeated send safe: a known id returns the first receipt. Default: a new UUID, chosen by the client (for raw signals by the workflow). */
  id?: string;
  /** Text is the prompt. It may be empty only if there are Parts. */
  text: string;
  /** Parts are images and further text, after Text. */
  parts?: Part[];
  /** WhenBusy chooses what happens while a turn runs. Default: BusyQueue. */
  whenBusy?: BusyPolicy;
  /** MaxTicks is how many model calls the agent may make for this message: the next one interrupts the turn, whose stop reason is then max_ticks. Default: the session's. */
  maxTicks?: number;
}

/** Receipt confirms that a message was accepted: it will be answered, or its failure will be in the conversation. */
export interface Receipt {
  sessionId: string;
  messageId: string;
  executionId: string;
  /** AfterSeq precedes every event that this message will cause in the stream. */
  afterSeq: number;
  /** Digest identifies the message's content, as Message.Digest does. */
  digest?: string;
  /** Handling is set for messages of BusySteer. A message that is folded into the running execution ends with that one: ExecutionID is then that of no execution, but Wait and Result accept it. */
  handling?: Handling;
}

/** Result is how an execution ended. Exactly one of Query.Error and Query.Result is set, or Reason for an interrupted one. One that a limit interrupted has an Error too, of TypeLimit or TypeMaxTicks. */
export interface Result {
  executionId: string;
  messageId: string;
  outcome: Outcome;
  result?: QueryResult;
  error?: ErrorInfo;
  reason?: string;
  /** MessageIDs are the messages that the execution answered, its own first, if others were folded into it; nil for one message. */
  messageIds?: string[];
}

/** InterruptRequest stops the running turn, and those of all children. */
export interface InterruptRequest {
  /** Message is sent next, before what is queued; if neither a turn nor a child of the session runs it is only queued. Its WhenBusy is ignored: the turn into which it could be folded is stopped. Optional. */
  message?: Message;
  /** Reason is stored in the query:interrupted event. */
  reason?: string;
  /** ExecutionID, if set, must be the running execution; otherwise the request is refused. */
  executionId?: string;
  /** ClearQueue also cancels the queued messages, before Message is taken: see QueueEdit.Cancel. */
  clearQueue?: boolean;
}

/** InterruptReply is returned when the interrupt is accepted; query:interrupted follows in the stream when the agent is quiet. */
export interface InterruptReply {
  /** Running reports whether the session or a child of it was running. If not, Message is only queued. */
  running: boolean;
  receipt?: Receipt;
  /** Cancelled is what ClearQueue removed from the queue, whole, in its order. */
  cancelled?: Message[];
}

/** RespondRequest answers a permission request or a question. */
export interface RespondRequest {
  requestId: string;
  allow: boolean;
  /** Message is passed to the agent with a denial. */
  message?: string;
  /** Input replaces the tool's input. */
  input?: unknown;
  /** By is who answers, as the stream reports it. Default: event.ByUser. */
  by?: string;
}

/** Conversation is a session as Show returns it. */
export interface Conversation {
  sessionId: string;
  agent: string;
  title: string;
  state: State;
  /** CreatedAt, UpdatedAt and Metadata are the archive's, zero without it. */
  createdAt?: string;
  updatedAt?: string;
  metadata?: Record<string, unknown>;
  /** LastSeq is the number of the last event that it has: Events behind it continue it. */
  lastSeq?: number;
  /** Asks are the unanswered permission requests, oldest first. Only the stream has them, and not those that are past its retention. */
  asks?: SessionEvent[];
  /** From is where it was read: archive or stream. */
  from: From;
  /** Faults describe what could not be read; State has the rest. */
  faults?: string[];
}

/** State is a conversation: the session's own blocks, and one thread for each subagent in the order in which they were first seen. A State is immutable: the folds of this package never write to one that they received or returned, and neither may a caller. The zero value is the empty conversation. */
export interface State {
  /** Blocks is the conversation "main". A subagent shows here only as its reference block. */
  blocks: Block[];
  subagents: Subagent[];
}

/** Subagent is the thread of one subagent. */
export interface Subagent {
  /** ToolUseID is the tool use that started it, and the id of its conversation. Unique within a state. */
  toolUseId: string;
  /** AgentID is the agent's own name for it, when known. */
  agentId?: string;
  /** ChildSessionID is set when the subagent is itself a Sojourn session, whose events are in that session's stream; empty for a thread that the agent runs inside itself. */
  childSessionId?: string;
  /** Status is running, success or error. */
  status: Execution;
  prompt: string;
  output?: string;
  /** DurationMS is the agent's own figure, in milliseconds. */
  durationMs?: number;
  blocks: Block[];
}

/** Inspection is what the query inspect returns: all state without bodies. */
export interface Inspection {
  version: string;
  sessionId: string;
  agent: string;
  profile?: string;
  title: string;
  status: SessionStatus;
  parent?: Parent;
  children: Child[];
  isAborted: boolean;
  queuedMessages: Message[];
  turns: number;
  usage: Usage;
  /** CostUSD as in State. */
  costUSD?: number;
  /** TickCount counts the model calls of the ended turns; nil while the agent has reported none, as some never do. */
  tickCount?: number;
  /** CurrentTick is the number of the running turn's current model call, from 1, by its latest heartbeat; nil while no turn runs, and for an agent that reports none. */
  currentTick?: number;
  lastSeq: number;
  sandbox: Sandbox | null;
  timestamp: string;
  /** Companions are the states that programs beside the session have stored, by their names; see Companion. */
  companions?: Record<string, unknown>;
  /** Phase is beginning, idle, waiting for a sandbox, turn, waiting (for a person), parked (waiting so without agent and sandbox), paused (by a limit), interrupting, closing or, without its workflow, closed. */
  phase: string;
  /** WaitsFor is what the session waits for other than an agent's work; "" for nothing. */
  waitsFor?: string;
  currentExecution?: string;
  options: Options;
  createdAt: string;
  lastBlock?: string;
  /** LastOutput is the start of the last answer; LastOutputTruncated reports that there is more, in the conversation. */
  lastOutput?: string;
  lastOutputTruncated?: boolean;
  /** LastTools are the last tool calls of the running turn, by its latest heartbeat, or of the one before, oldest first, in short. */
  lastTools: TicksTool[];
  /** LastOutcome is how the last execution ended; "" before the first one has. */
  lastOutcome?: Outcome;
  failure?: ErrorInfo;
  archiveBehind?: string;
  epoch: number;
  restarts: number;
  /** Background are the commands that the agent's tools had left running when the idle timeout last passed: they keep the sandbox. */
  background?: string[];
  /** Parts are those of the profile in the newest sandbox; zero before the first one and without a profile. */
  parts?: Parts;
  /** Pending are the ids of the permission requests that wait for a person. */
  pendingPermissions: string[];
  /** Parked is what a parked turn waits for; nil if none is parked. */
  parked?: Parked;
  historyLength: number;
}

/** Parent identifies the session that spawned this one. */
export interface Parent {
  sessionId: string;
  root: string;
  /** Depth of the spawned session; its parent's plus one. */
  depth: number;
  toolUseId: string;
}

/** Child is a spawned session that is still open. */
export interface Child {
  sessionId: string;
  toolUseId: string;
  agent: string;
  /** RunID is the first run of its workflow; "" while that is being started. */
  runId?: string;
  /** Interrupt reports whether an interrupt is still to be sent to it. */
  interrupt?: boolean;
  /** Shares reports whether it works in this session's sandbox. */
  shares?: boolean;
  /** GrantUSD and GrantTokens are how much of its parent's limits it may use; 0 if there is no limit. */
  grantUSD?: number;
  grantTokens?: number;
}

/** Sandbox is the sandbox in which a session's agent runs. */
export interface Sandbox {
  host: string;
  id: string;
  /** Provider is the name of its provider. */
  provider?: string;
  /** Epoch is the epoch under which it was made. */
  epoch: number;
  /** Status is starting, ready, unhealthy or terminated. */
  status: string;
}

/** Tool is a tool call in short. */
export interface TicksTool {
  toolUseId: string;
  name: string;
  /** Input and Output are JSON, or a text, in one line of at most MaxLine bytes and an ellipsis. Output is nil until the call has ended. */
  input?: string;
  output?: string;
  isError?: boolean;
}

/** Parts are what a profile has for an agent, by name and without the content. */
export interface Parts {
  /** Instructions reports whether there are any. */
  instructions?: boolean;
  rules?: string[];
  skills?: string[];
  subagents?: string[];
  commands?: string[];
  /** MCPServers has the bundled ones too. */
  mcpServers?: string[];
  /** PermissionRules counts the rules that decide on the agent's calls. */
  permissionRules?: number;
}

/** Parked is a turn that waits for a person without an agent and a sandbox. The zero value is a turn that is not parked. */
export interface Parked {
  since: string;
  /** Requests are those without an answer, oldest first. */
  requests?: PermissionRequest[];
  decisions?: Decision[];
  /** Deadline is the one that applied. */
  deadline?: Deadline;
  /** Folders are the paths of the sandbox that was given up: the next one has others. */
  folders?: string[];
  /** PromptID is the agent's id for the turn's message; "" if it is unknown. */
  promptId?: string;
}

/** Request is a permission request whose turn is parked. */
export interface PermissionRequest {
  requestId: string;
  toolName?: string;
  toolUseId?: string;
  title?: string;
  /** Input and Questions are as in event.PermissionRequested; Cut reports that they are left out because they are long: then the Questions of a question are an empty list. */
  input?: unknown;
  questions?: unknown;
  cut?: boolean;
  /** Call identifies the tool and all of its input; see [Call]. */
  call: string;
  /** At is when the agent asked. */
  at: string;
}

/** Decision is the decision on a request while its turn was parked. */
export interface Decision {
  requestId: string;
  toolName?: string;
  toolUseId?: string;
  title?: string;
  /** Input and Questions are as in event.PermissionRequested; Cut reports that they are left out because they are long: then the Questions of a question are an empty list. */
  input?: unknown;
  questions?: unknown;
  cut?: boolean;
  /** Call identifies the tool and all of its input; see [Call]. */
  call: string;
  /** At is when the agent asked. */
  at: string;
  allow: boolean;
  /** Message is what the agent gets with a denial. */
  message?: string;
  /** Given replaces the tool's input, or has the answers to a question. */
  given?: unknown;
  /** By is as in event.PermissionResolved. */
  by: string;
  /** Used is the request that it has answered, made by the resumed agent; "" before there is one. */
  used?: string;
}

/** Page is one page of a list, newest first. */
export interface Page {
  sessions: Summary[];
  /** Next is the token of the next page; "" when this is the last. */
  next?: string;
  /** Faults describe what could not be read. Titles and tags of closed sessions, which can be changed, are in the archive; without it they may be as they were at the close. */
  faults?: string[];
}

/** Summary is one session in a list. */
export interface Summary {
  sessionId: string;
  title: string;
  agent: string;
  profile?: string;
  status: SessionStatus;
  /** Outcome is how the last turn ended; "" before a turn has ended, and for an archived session. */
  outcome?: Outcome;
  host?: string;
  parent?: string;
  tags?: string[];
  turns: number;
  /** CostUSD as in State. */
  costUSD?: number;
  createdAt: string;
  lastActivity?: string;
  closedAt?: string;
  /** Parked reports whether it waits for a person without an agent and a sandbox. */
  parked?: boolean;
  /** WaitsFor is what keeps its turn from running now, other than a person's answer: the limit that was reached, that no host has a free slot, or what has failed and is to be tried again; "" for nothing. */
  waitsFor?: string;
  /** Archived marks a session that Temporal no longer retains. */
  archived?: boolean;
  /** Runtime is what runs for the session: its sandbox is null if it has none. */
  runtime: Runtime;
  /** Damage describes what of the archived session can't be read, "" for none; the fields that depend on it are zero, and title and tags of one that Temporal retains are those of its close. */
  damage?: string;
}

/** Change means that a shown list of sessions must be fetched again. */
export interface StreamChange {
  sessionId?: string;
  kind: ChangeKind;
}

export type Answer = "allow" | "ask" | "deny";

export type BlockStatus = "pending" | "complete" | "error";

export type BlockType = "user_message" | "assistant_text" | "thinking" | "tool_use" | "tool_result" | "subagent" | "system" | "error" | "skill_load";

export type BusyPolicy = "queue" | "interrupt" | "reject" | "steer";

export type ChangeKind = "created" | "closed" | "renamed" | "deleted" | "missed";

export type Dir = "in" | "out" | "err" | "sig";

export type Execution = "pending" | "running" | "success" | "error";

export type From = "auto" | "archive" | "stream";

export type Handling = "queued" | "handed";

export type OnLoss = "continue" | "ask" | "fail";

export type Outcome = "completed" | "failed" | "interrupted";

export type SessionStatus = "idle" | "running" | "waiting" | "paused" | "closed";

export type Source = "runner" | "server";

export type SubagentResult = "completed" | "failed";
