package session

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/reducer/brief"
	"github.com/sojourn-run/sojourn/reducer/ticks"
)

// Status is what a session is doing, by its workflow's state.
type Status string

const (
	StatusIdle    Status = "idle"
	StatusRunning Status = "running"
	// StatusWaiting: the turn waits for a person's answer; it may be parked, see
	// Inspection.Parked.
	StatusWaiting Status = "waiting"
	// StatusPaused: a limit is reached, and queued messages don't run until it is
	// raised.
	StatusPaused Status = "paused"
	StatusClosed Status = "closed"
)

// State is the whole state of the workflow; continue-as-new carries it. Plain data; it
// holds no block bodies and no deltas.
type State struct {
	Title      string              `json:"title,omitempty"`
	Model      string              `json:"model,omitempty"`
	Permission adapters.Permission `json:"permission,omitempty"`
	// Permissions, PermissionDeadline, Park and UnknownEffects as in Options.
	Permissions        permission.Rules           `json:"permissions,omitempty"`
	PermissionDeadline permission.Deadline        `json:"permissionDeadline,omitzero"`
	Park               permission.Park            `json:"parkMs,omitempty"`
	UnknownEffects     permission.EffectRules     `json:"unknownEffects,omitempty"`
	Metadata           map[string]json.RawMessage `json:"metadata,omitempty"`
	Tags               []string                   `json:"tags,omitempty"`
	// IdleTimeoutMS is that of Options, never 0.
	IdleTimeoutMS int64         `json:"idleTimeoutMs"`
	Limits        limits.Limits `json:"limits,omitzero"`
	// MaxTicks as in Options.
	MaxTicks int `json:"maxTicks,omitempty"`

	Queue Queue `json:"queue,omitempty"`
	// Receipts are the last KeptReceipts accepted messages, oldest first.
	Receipts []Receipt `json:"receipts,omitempty"`
	// Spent are the ids of messages that were accepted before those, as hashes.
	Spent SpentIDs `json:"spent,omitempty"`
	// Results are the last KeptResults ended executions, oldest first.
	Results []Result `json:"results,omitempty"`
	// Executions counts the execution ids assigned.
	Executions int `json:"executions"`

	// UnderWay is the turn that the previous run left running; nil between turns.
	UnderWay *UnderWay `json:"underWay,omitempty"`
	// Notices were not written yet when the previous run ended, oldest first.
	Notices []Notice `json:"notices,omitempty"`
	// Answers were not yet sent to the turn then, and EpochUnknown reports that its epoch
	// might not be the newest.
	Answers      []RespondRequest `json:"answers,omitempty"`
	EpochUnknown bool             `json:"epochUnknown,omitempty"`
	// Evict is why the sandbox has to end as soon as no turn runs (EvictsBusy: before the
	// next one); "" if it need not.
	Evict string `json:"evict,omitempty"`

	Sandbox *Sandbox `json:"sandbox,omitempty"`
	// Parts as in Inspection.
	Parts adapters.Parts `json:"parts,omitzero"`
	// LostSandbox was lost with its host, and the stream does not have its end yet.
	LostSandbox *Sandbox `json:"lostSandbox,omitempty"`
	// Restarts counts sandboxes and agent processes lost.
	Restarts int `json:"restarts,omitempty"`
	// Epoch is the last one taken. It is taken from the archive, never counted here.
	Epoch uint64 `json:"epoch,omitempty"`
	// MinTurn is the highest turn that an earlier run may have fenced in this epoch:
	// the next turn's number must be higher. 0: none.
	MinTurn int `json:"minTurn,omitempty"`
	// Native counts the native sessions started.
	Native int `json:"native"`

	Aborted bool        `json:"aborted,omitempty"`
	Turns   int         `json:"turns"`
	Usage   event.Usage `json:"usage"`
	// CostUSD is the cost of the turns and of the ended children, with their own children;
	// nil while none is known: reported by an agent, or by a worker's prices.
	CostUSD *float64 `json:"costUSD,omitempty"`
	// ChildTokens are the tokens of the ended children, with their own children.
	ChildTokens int64 `json:"childTokens,omitempty"`
	// WorkMS is how many milliseconds turns have run.
	WorkMS int64 `json:"workMs,omitempty"`
	// Ticks counts the model calls of all turns; nil while the agent has reported none.
	Ticks *int `json:"ticks,omitempty"`
	// LastTools are the last tool calls of the last turn, in short.
	LastTools    []ticks.Tool `json:"lastTools,omitempty"`
	LastSeq      uint64       `json:"lastSeq"`
	LastBlockID  string       `json:"lastBlockId,omitempty"`
	LastBlock    string       `json:"lastBlock,omitempty"`
	LastActivity time.Time    `json:"lastActivity,omitzero"`
	// Outcome is how the last execution ended; "" before the first one has.
	Outcome Outcome `json:"outcome,omitempty"`
	// Failure is why the last execution failed; nil if it did not.
	Failure *event.ErrorInfo `json:"failure,omitempty"`
	// ArchiveBehind is what the archive does not have yet; "" if it has everything.
	ArchiveBehind string `json:"archiveBehind,omitempty"`
	// Background as in Inspection.
	Background []string `json:"background,omitempty"`
	// Unarchived is where the first turn started that the archive may not have whole; nil
	// if it has all.
	Unarchived *Unarchived `json:"unarchived,omitempty"`
	Children   []Child     `json:"children,omitempty"`
	// Spawns are the requests of those Children that do not run yet.
	Spawns []SpawnRequest `json:"spawns,omitempty"`
}

// Remember adds the receipt of an accepted message.
func (s *State) Remember(rec Receipt) {
	s.Receipts = append(s.Receipts, rec)
	if over := len(s.Receipts) - KeptReceipts; over > 0 {
		for _, old := range s.Receipts[:over] {
			s.Spent.Add(old.MessageID)
		}
		s.Receipts = s.Receipts[over:]
	}
}

// KeepResult adds how an execution ended, for queries.
func (s *State) KeepResult(res Result) {
	s.Results = append(s.Results, res)
	if over := len(s.Results) - KeptResults; over > 0 {
		s.Results = s.Results[over:]
	}
}

// Unarchived is a position in the stream from which on the archive may be behind.
type Unarchived struct {
	AfterSeq uint64 `json:"afterSeq"`
	// Anchor is the last block of the main conversation at that position.
	Anchor string `json:"anchor,omitempty"`
	// Epoch is the epoch of the sandbox that has what the archive does not have.
	Epoch uint64 `json:"epoch"`
	// Messages are those of the turns that ended since: with the stream deleted and the host
	// lost no one else has them. Those that are more than MaxQueueBytes are left out, the
	// oldest first.
	Messages []Message `json:"messages,omitempty"`
}

// Keep adds the messages of a turn that has ended.
func (u *Unarchived) Keep(messages ...Message) {
	u.Messages = append(u.Messages, messages...)
	size := 0
	for i, m := range slices.Backward(u.Messages) {
		if size += m.Size(); size > MaxQueueBytes && i < len(u.Messages)-1 {
			u.Messages = u.Messages[i+1:]
			return
		}
	}
}

// KeepUnarchived keeps messages of a turn that has ended and may not be in the archive, which is
// behind from at on if it was not before.
// Without messages it does nothing.
func (s *State) KeepUnarchived(at Unarchived, messages ...Message) {
	if len(messages) == 0 {
		return
	}
	if s.Unarchived == nil {
		s.Unarchived = &at
	}
	s.Unarchived.Keep(messages...)
}

// Queued is a message that waits for its execution.
type Queued struct {
	Message     Message `json:"message"`
	ExecutionID string  `json:"executionId"`
	// Hold keeps it queued until a Send or Render runs the queue.
	Hold bool `json:"hold,omitempty"`
	// Offered reports whether the working agent may have it: BusySteer. It waits until the
	// running execution has ended, with it or without it.
	Offered bool `json:"offered,omitempty"`
	// Cancelled is why it must not run, if that execution ends without it; "" if it must.
	// Its own execution, if it comes to that, ends without an agent.
	Cancelled string `json:"cancelled,omitempty"`
}

// Sandbox is the sandbox in which a session's agent runs.
type Sandbox struct {
	Host string `json:"host"`
	ID   string `json:"id"`
	// Provider is the name of its provider.
	Provider string `json:"provider,omitempty"`
	// Epoch is the epoch under which it was made.
	Epoch uint64 `json:"epoch"`
	// Status is starting, ready, unhealthy or terminated.
	Status string `json:"status"`
}

// Environment returns the sandbox's form in events, with a status.
func (s Sandbox) Environment(status string) event.Environment {
	return event.Environment{SandboxID: s.ID, Host: s.Host, Provider: s.Provider, Epoch: s.Epoch, Status: status}
}

// Child is a spawned session that is still open.
type Child struct {
	SessionID string `json:"sessionId"`
	ToolUseID string `json:"toolUseId"`
	Agent     string `json:"agent"`
	// RunID is the first run of its workflow; "" while that is being started.
	RunID string `json:"runId,omitempty"`
	// Interrupt reports whether an interrupt is still to be sent to it.
	Interrupt bool `json:"interrupt,omitempty"`
	// Shares reports whether it works in this session's sandbox.
	Shares bool `json:"shares,omitempty"`
	// GrantUSD and GrantTokens are how much of its parent's limits it may use; 0 if there is
	// no limit.
	GrantUSD    float64 `json:"grantUSD,omitempty"`
	GrantTokens int64   `json:"grantTokens,omitempty"`
}

// Used returns what the session has used, apart from a running turn. What is granted to a
// live child counts as used: a tree has one purse.
func (st *State) Used() limits.Used {
	u := limits.Used{Turns: st.Turns, Work: time.Duration(st.WorkMS) * time.Millisecond}
	if st.Ticks != nil {
		u.Calls = *st.Ticks
	}
	u = u.Add(st.Usage, st.CostUSD, 0)
	u.Tokens += st.ChildTokens
	for _, c := range st.Children {
		u.Tokens += c.GrantTokens
		if c.GrantUSD > 0 {
			u.CostUSD = event.AddKnown(u.CostUSD, &c.GrantUSD)
		}
	}
	return u
}

// Result is how an execution ended. Exactly one of Query.Error and
// Query.Result is set, or Reason for an interrupted one. One that a limit
// interrupted has an Error too, of TypeLimit or TypeMaxTicks.
type Result struct {
	ExecutionID string             `json:"executionId"`
	MessageID   string             `json:"messageId"`
	Outcome     Outcome            `json:"outcome"`
	Result      *event.QueryResult `json:"result,omitempty"`
	Error       *event.ErrorInfo   `json:"error,omitempty"`
	Reason      string             `json:"reason,omitempty"`
	// MessageIDs are the messages that the execution answered, its own first, if
	// others were folded into it; nil for one message.
	MessageIDs []string `json:"messageIds,omitempty"`
}

// Fitting returns the result with a response of at most n bytes as JSON, in which a character
// may take six: a result that is passed on through Temporal must fit into a payload.
func (r Result) Fitting(n int) Result {
	if r.Result == nil {
		return r
	}
	short := *r.Result
	for most := n; JSONSize(short.Response) > n; most /= 2 {
		short = brief.Shorten(*r.Result, most)
	}
	r.Result = &short
	return r
}

// JSONSize returns a value's size in a payload, as JSON; 0 for one that can't be encoded.
func JSONSize(v any) int {
	text, err := json.Marshal(v)
	if err != nil {
		return 0
	}
	return len(text)
}

// Outcome is how an execution ended.
type Outcome string

const (
	Completed   Outcome = "completed"
	Failed      Outcome = "failed"
	Interrupted Outcome = "interrupted"
)

// Progress is a turn's progress.
type Progress struct {
	// Ticks counts its model calls, including the running one; nil while the agent has
	// reported none.
	Ticks *int `json:"ticks,omitempty"`
	// Tools are its last tool calls.
	Tools []ticks.Tool `json:"tools,omitempty"`
}

// Inspection.Phase of a session that does nothing, and of one that is closed.
const (
	phaseIdle   = "idle"
	phaseClosed = "closed"
)

// SnapshotVersion is the version of Snapshot's form.
const SnapshotVersion = "1.0"

// Snapshot is the small state that the query snapshot returns.
type Snapshot struct {
	Version   string      `json:"version"`
	SessionID string      `json:"sessionId"`
	Agent     string      `json:"agent"`
	Profile   string      `json:"profile,omitempty"`
	Title     string      `json:"title"`
	Status    Status      `json:"status"`
	Parent    *Parent     `json:"parent,omitempty"`
	Children  []Child     `json:"children"`
	Aborted   bool        `json:"isAborted"`
	Queued    []Message   `json:"queuedMessages"`
	Turns     int         `json:"turns"`
	Usage     event.Usage `json:"usage"`
	// CostUSD as in State.
	CostUSD *float64 `json:"costUSD,omitempty"`
	// TickCount counts the model calls of the ended turns; nil while the agent has reported
	// none, as some never do.
	TickCount *int `json:"tickCount,omitempty"`
	// CurrentTick is the number of the running turn's current model call, from 1, by its
	// latest heartbeat; nil while no turn runs, and for an agent that reports none.
	CurrentTick *int      `json:"currentTick,omitempty"`
	LastSeq     uint64    `json:"lastSeq"`
	Sandbox     *Sandbox  `json:"sandbox"`
	Timestamp   time.Time `json:"timestamp"`
	// Companions are the states that programs beside the session have stored, by their names; see
	// Companion.
	Companions map[string]json.RawMessage `json:"companions,omitempty"`
}

// Inspection is what the query inspect returns: all state without bodies.
type Inspection struct {
	Snapshot
	// Phase is beginning, idle, waiting for a sandbox, turn, waiting (for a person),
	// parked (waiting so without agent and sandbox), paused (by a limit), interrupting, closing
	// or, without its workflow, closed.
	Phase string `json:"phase"`
	// WaitsFor is what the session waits for other than an agent's work; "" for nothing.
	WaitsFor         string    `json:"waitsFor,omitempty"`
	CurrentExecution string    `json:"currentExecution,omitempty"`
	Options          Options   `json:"options"`
	CreatedAt        time.Time `json:"createdAt"`
	LastBlock        string    `json:"lastBlock,omitempty"`
	// LastOutput is the start of the last answer; LastOutputTruncated reports that there is
	// more, in the conversation.
	LastOutput          string `json:"lastOutput,omitempty"`
	LastOutputTruncated bool   `json:"lastOutputTruncated,omitempty"`
	// LastTools are the last tool calls of the running turn, by its latest heartbeat,
	// or of the one before, oldest first, in short.
	LastTools []ticks.Tool `json:"lastTools"`
	// LastOutcome is how the last execution ended; "" before the first one has.
	LastOutcome Outcome `json:"lastOutcome,omitempty"`

	Failure       *event.ErrorInfo `json:"failure,omitempty"`
	ArchiveBehind string           `json:"archiveBehind,omitempty"`
	Epoch         uint64           `json:"epoch"`
	Restarts      int              `json:"restarts"`
	// Background are the commands that the agent's tools had left running when the idle
	// timeout last passed: they keep the sandbox.
	Background []string `json:"background,omitempty"`
	// Parts are those of the profile in the newest sandbox; zero before the first one and
	// without a profile.
	Parts adapters.Parts `json:"parts,omitzero"`
	// Pending are the ids of the permission requests that wait for a person.
	Pending []string `json:"pendingPermissions"`
	// Parked is what a parked turn waits for; nil if none is parked.
	Parked        *permission.Parked `json:"parked,omitempty"`
	HistoryLength int                `json:"historyLength"`
}
