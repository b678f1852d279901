// The reducer: what events mean for a conversation. It is package reducer's, rule for rule; its
// documentation has the rules. A test compares both over the same events.
import type { Block, BlockType, BlockUpsert, Context, Execution, SessionEvent, State, Subagent, SubagentCompleted, SubagentSpawned } from './types.js';

/** empty is the conversation without events. */
export const empty: State = { blocks: [], subagents: [] };

/**
 * reduce returns the conversation after an event. It is pure: neither argument is written to, and
 * an event that changes nothing returns the state itself. What the event holds becomes part of the
 * state, and must not be written to afterwards.
 */
export function reduce(state: State, event: SessionEvent): State {
  const tree = new Tree(state);
  apply(tree, event);
  return tree.state;
}

/** conversation returns the blocks of main, or of a subagent by its toolUseId or else its agentId. */
export function conversation(state: State, id: string): Block[] {
  if (id === main) return state.blocks;
  return state.subagents[lookup(state.subagents, id, id)]?.blocks ?? none;
}

/** none is the conversation that there is not, the same one each time. */
const none: Block[] = [];

const main = 'main';

/** own is the index of the session's own conversation; subagents count from 0. */
const own = -1;

/** Tree is a state under change by one event: what is written to is copied. */
class Tree {
  constructor(public state: State) {}

  blocks(at: number): Block[] {
    return at === own ? this.state.blocks : this.state.subagents[at]!.blocks;
  }

  setBlocks(at: number, blocks: Block[]): void {
    if (at === own) this.state = { ...this.state, blocks };
    else this.setSubagent(at, { ...this.state.subagents[at]!, blocks });
  }

  addSubagent(s: Subagent): number {
    this.state = { ...this.state, subagents: [...this.state.subagents, s] };
    return this.state.subagents.length - 1;
  }

  setSubagent(at: number, s: Subagent): void {
    this.state = { ...this.state, subagents: this.state.subagents.with(at, s) };
  }

  block(at: number, id: string): Block | undefined {
    return this.blocks(at).findLast((b) => b.id === id);
  }

  addBlock(at: number, b: Block): void {
    this.setBlocks(at, [...this.blocks(at), b]);
  }

  setBlock(at: number, b: Block): void {
    const blocks = this.blocks(at);
    this.setBlocks(at, blocks.with(blocks.findLastIndex((x) => x.id === b.id), b));
  }

  dropBlock(at: number, id: string): void {
    const blocks = this.blocks(at);
    this.setBlocks(at, blocks.toSpliced(blocks.findLastIndex((b) => b.id === id), 1));
  }

  /** find returns the index of a conversation, undefined if it is unknown. */
  find(id: string): number | undefined {
    if (id === main) return own;
    const at = lookup(this.state.subagents, id, id);
    return at < 0 ? undefined : at;
  }

  /** locate returns the conversation that has a block. */
  locate(blockID: string): number | undefined {
    if (this.block(own, blockID)) return own;
    const at = this.state.subagents.findIndex((_, i) => this.block(i, blockID));
    return at < 0 ? undefined : at;
  }
}

/** lookup finds a subagent by toolUseID and, only if none has it, by agentID. */
function lookup(subagents: Subagent[], toolUseID: string, agentID: string): number {
  const at = toolUseID ? subagents.findIndex((s) => s.toolUseId === toolUseID) : -1;
  return at < 0 && agentID ? subagents.findIndex((s) => s.agentId === agentID) : at;
}

function apply(tree: Tree, event: SessionEvent): void {
  const of = event.context.conversationId || main;
  switch (event.type) {
    case 'block:upsert':
      return upsert(tree, event.context, of, normal(event.payload.block));
    case 'block:delta':
      return append(tree, of, event.payload.blockId, event.payload.delta);
    case 'subagent:spawned':
      return spawned(tree, event.context, of, event.payload);
    case 'subagent:completed':
      return completed(tree, event.payload);
    case 'session:idle':
      return settle(tree, of);
  }
}

function upsert(tree: Tree, context: Context, of: string, given: Block): void {
  if (!given.id) return;
  let at = tree.find(of);
  const old = at === undefined ? undefined : tree.block(at, given.id);
  if (at !== undefined && old) {
    if (!recreates(old, given)) return change(tree, context, at, old, given);
    tree.dropBlock(at, old.id);
  }
  if (!given.type || neverSeen(create(given, context))) return;
  at ??= tree.addSubagent({ toolUseId: of, status: 'running', prompt: '', blocks: [] });
  tree.addBlock(at, create(given, context));
}

function change(tree: Tree, context: Context, at: number, old: Block, given: Block): void {
  const merged = merge(old, given);
  if (neverSeen(merged) && (!given.type || neverSeen(create(given, context)))) tree.dropBlock(at, old.id);
  else if (merged !== old) tree.setBlock(at, merged);
}

function append(tree: Tree, of: string, id: string, delta: string): void {
  const at = tree.find(of);
  const old = at === undefined ? undefined : tree.block(at, id);
  if (at === undefined || !old || !delta || !hasText(old.type)) return;
  tree.setBlock(at, { ...old, content: (old.content ?? '') + delta });
}

/** settle completes what is pending in a conversation whose agent is idle, and drops empty texts. */
function settle(tree: Tree, of: string): void {
  const at = tree.find(of);
  if (at === undefined) return;
  const blocks = tree.blocks(at);
  if (!blocks.some((b) => b.status === 'pending' || isEmptyText(b))) return;
  tree.setBlocks(at, blocks.filter((b) => !isEmptyText(b)).map((b) => (b.status === 'pending' ? { ...b, status: 'complete' } : b)));
}

/** subagentOf returns the index of the subagent that an event names; one that is unknown is added. */
function subagentOf(tree: Tree, toolUseID: string, agentID: string | undefined): number {
  const at = lookup(tree.state.subagents, toolUseID, agentID ?? '');
  return at < 0 ? tree.addSubagent({ toolUseId: toolUseID, status: 'running', prompt: '', blocks: [] }) : at;
}

function spawned(tree: Tree, context: Context, of: string, p: SubagentSpawned): void {
  const id = p.toolUseId || p.agentId;
  if (!id) return;
  const at = subagentOf(tree, id, p.agentId);
  const s = named(tree.state.subagents[at]!, p);
  s.prompt ||= p.prompt;
  update(tree, at, s);
  show(tree, context, of, at, reference(s, p));
}

/** named returns a copy with the ids that were not known yet. */
function named(s: Subagent, p: { agentId?: string; childSessionId?: string }): Subagent {
  return set({ ...s }, { agentId: s.agentId || p.agentId, childSessionId: s.childSessionId || p.childSessionId });
}

function reference(s: Subagent, p: SubagentSpawned): Block {
  return set(outcome(s), { toolUseId: s.toolUseId, name: p.subagentType, description: p.description, input: s.prompt || undefined });
}

/** outcome is the part of a subagent's reference block that depends on its state. */
function outcome(s: Subagent): Block {
  const status = s.status === 'success' ? 'complete' : s.status === 'error' ? 'error' : undefined;
  return set<Block>({ id: 'subagent-block-' + s.toolUseId, type: 'subagent', executionStatus: s.status }, {
    status, durationMs: s.durationMs, output: s.output, subagentId: s.agentId && 'agent-' + s.agentId,
  });
}

/** show adds a subagent's reference block to its parent's conversation, or sets what it lacks. */
function show(tree: Tree, context: Context, of: string, child: number, ref: Block): void {
  const at = tree.locate(ref.id);
  if (at !== undefined) {
    const old = tree.block(at, ref.id)!;
    const merged = merge(old, lacking(old, ref));
    if (merged !== old) tree.setBlock(at, merged);
    return;
  }
  const parent = tree.find(of);
  tree.addBlock(parent === undefined || parent === child ? own : parent, create(ref, context));
}

function lacking(old: Block, ref: Block): Block {
  const ended = !old.executionStatus || old.executionStatus === 'pending';
  return set<Block>({ id: ref.id, type: ref.type }, {
    toolUseId: old.toolUseId ? undefined : ref.toolUseId,
    subagentId: old.subagentId ? undefined : ref.subagentId,
    name: old.name ? undefined : ref.name,
    description: old.description ? undefined : ref.description,
    input: old.input === undefined || old.input === '' ? ref.input : undefined,
    executionStatus: ended ? ref.executionStatus : undefined,
    status: ended ? ref.status : undefined,
  });
}

function completed(tree: Tree, p: SubagentCompleted): void {
  const id = p.toolUseId || p.agentId;
  if (!id) return;
  const at = subagentOf(tree, id, p.agentId);
  const s = named(tree.state.subagents[at]!, p);
  s.status = p.status === 'completed' ? 'success' : 'error';
  const output = p.output ?? s.output;
  const nothing = output === '';
  set(s, { durationMs: p.durationMs ?? s.durationMs, output });
  if (nothing) delete s.output;
  update(tree, at, s);
  conclude(tree, s, nothing);
}

function update(tree: Tree, at: number, s: Subagent): void {
  if (!equal(tree.state.subagents[at], s)) tree.setSubagent(at, s);
}

/** conclude writes a subagent's outcome to its reference block; nothing clears an earlier output. */
function conclude(tree: Tree, s: Subagent, nothing: boolean): void {
  const ref = outcome(s);
  if (nothing) ref.output = null;
  const at = tree.locate(ref.id);
  if (at === undefined) return;
  const old = tree.block(at, ref.id)!;
  const merged = merge(old, ref);
  if (merged !== old) tree.setBlock(at, merged);
}

function create(given: Block, context: Context): Block {
  const b: Block = { ...given, status: given.status || 'pending' };
  set(b, { timestamp: given.timestamp ?? time(context.timestamp) });
  if (context.source === 'server') b.source = 'server';
  return fill(b);
}

/** fill sets, in a block that was made for it, the missing fields of its type to their empty values. */
function fill(b: Block): Block {
  switch (b.type) {
    case 'user_message':
    case 'assistant_text':
    case 'thinking':
    case 'skill_load':
      b.content ??= '';
      break;
    case 'tool_use':
      if (b.input === undefined) b.input = {};
      b.executionStatus ||= 'pending';
      break;
    case 'tool_result':
      if (b.output === undefined) b.output = null;
      b.isError ??= false;
      break;
    case 'subagent':
      if (b.input === undefined) b.input = '';
      if (b.output === undefined) b.output = null;
      b.executionStatus ||= 'pending' satisfies Execution;
      break;
    case 'system':
    case 'error':
      b.message ??= '';
  }
  return b;
}

/** merge returns the block with the given fields over its own; the block itself if they change nothing. */
function merge(old: Block, given: Block): Block {
  const metadata = given.metadata && { ...old.metadata, ...given.metadata };
  const merged = set({ ...old }, { ...given, metadata });
  return equal(old, merged) ? old : fill(merged);
}

/** set sets the fields that have a value. */
function set<T extends object>(into: T, fields: Partial<T>): T {
  for (const key of Object.keys(fields) as (keyof T)[]) {
    if (fields[key] !== undefined) into[key] = fields[key]!;
  }
  return into;
}

/** recreates reports whether a lost block is created again, by which nothing of it is kept. */
function recreates(old: Block, given: Block): boolean {
  const begins = given.type && (given.status === 'pending' || given.status === 'complete');
  return !!begins && isLost(old) && !isLost(given);
}

function isLost(b: Block): boolean {
  return b.metadata?.['lost'] === true;
}

/** neverSeen reports whether a block that no transcript has was invisible. */
function neverSeen(b: Block): boolean {
  const message = b.type === 'user_message' && !b.parts && !b.content;
  return isLost(b) && b.source === 'server' && (isEmptyText(b) || message);
}

function isEmptyText(b: Block): boolean {
  return (b.type === 'assistant_text' || b.type === 'thinking') && !b.content && !b.summary;
}

function hasText(t: BlockType): boolean {
  return t === 'user_message' || t === 'assistant_text' || t === 'thinking' || t === 'skill_load';
}

/** anyJSON are the fields of a block in which null is a value. */
const anyJSON = new Set<keyof Block>(['input', 'output']);

/** normal returns the fields of a block that an event sets. */
function normal(given: BlockUpsert['block']): Block {
  const b: Partial<Block> = {};
  for (const key of Object.keys(given) as (keyof Block)[]) {
    const value: unknown = given[key];
    if (value !== undefined && (value !== null || anyJSON.has(key))) Object.assign(b, { [key]: value });
  }
  for (const key of texts) if (b[key] === '') delete b[key];
  if (b.source !== 'server') delete b.source;
  if (!b.parts?.length) delete b.parts;
  if (b.metadata && !Object.keys(b.metadata).length) delete b.metadata;
  const at = time(b.timestamp);
  if (at) b.timestamp = at;
  else delete b.timestamp;
  return b as Block;
}

/** texts are the fields that an empty text does not set. */
const texts = ['type', 'status', 'source', 'model', 'toolName', 'toolUseId', 'executionStatus', 'subagentId', 'name', 'description', 'subtype', 'code', 'skillName'] as const;

/** time returns a time in UTC, with its fraction as short as it can be; undefined for none. */
function time(t: string | undefined): string | undefined {
  const parts = /^(.{19})(\.\d+)?(Z|[+-]\d\d:\d\d)$/.exec(t ?? '');
  if (!parts || t === '0001-01-01T00:00:00Z') return undefined;
  const fraction = parts[2]?.replace(/\.?0+$/, '') ?? '';
  const seconds = parts[3] === 'Z' ? parts[1]! : new Date(parts[1]! + parts[3]!).toISOString().slice(0, 19);
  return seconds + fraction + 'Z';
}

/** equal compares JSON values. */
export function equal(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || !a || !b || Array.isArray(a) !== Array.isArray(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((k) => k in b && equal((a as Record<string, unknown>)[k], (b as Record<string, unknown>)[k]));
}
