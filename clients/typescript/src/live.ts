import { call } from './calls.js';
import type { Client, Shown, WorkspaceFile } from './client.js';
import { GatewayError } from './errors.js';
import { empty, reduce } from './reduce.js';
import type { Inspection, Log, PermissionRequested, SessionEvent, State } from './types.js';

/** LiveState is what is known of a session now. It is never written to: each change makes a new one. */
export interface LiveState {
  /** loading is true until the session was read for the first time, or can't be. */
  readonly loading: boolean;
  /** error is why the session is not followed at the moment; what is known of it stays. */
  readonly error?: Error;
  /** connected reports whether events arrive as they happen. */
  readonly connected: boolean;
  /** conversation has all of the agent's and the people's blocks, and those of subagents. */
  readonly conversation: State;
  /** lastSeq is the number of the last event in it. */
  readonly lastSeq: number;
  /** session has the agent, the title, and what could not be read. */
  readonly session?: Omit<Shown, 'state' | 'asks' | 'open' | 'inspection' | 'lastSeq'>;
  /** inspection is the state of an open session: its status, queue, limits, usage, children. It is missing while no worker has it. */
  readonly inspection?: Inspection;
  readonly closed: boolean;
  /** permissions are the requests that wait for an answer, oldest first. */
  readonly permissions: readonly PermissionRequested[];
  /** logs are the lines for operators since the session is followed here, the last thousand. */
  readonly logs: readonly LogLine[];
  /** files are the workspace as it was archived, with what has changed since; undefined until they are asked for. */
  readonly files?: readonly WorkspaceFile[];
  readonly filesError?: Error;
}

/** LogLine is a line for operators. */
export interface LogLine extends Log {
  timestamp?: string;
  seq?: number;
}

const unread: LiveState = { loading: true, connected: false, conversation: empty, lastSeq: 0, closed: false, permissions: [], logs: [] };

/** mostLogs bounds the lines that are kept. */
const mostLogs = 1000;

// Times in milliseconds.
/** frame is the time between two calls of a watcher. */
const frame = 16;
/** settling is the time from an event until the state is asked for; the pause doubles up to settled. */
const settling = 150;
const settled = 8000;
/** grace is how long a session is still followed behind its last watcher. */
const grace = 1000;
/** firstRetry doubles with each attempt to read a session. */
const firstRetry = 500;
const longestRetry = 10_000;

/** inVain are the codes of errors that another attempt does not mend. */
const inVain = new Set(['not_found', 'invalid', 'unauthorized']);

/** outdated are the codes of a room's errors behind which the session has to be read anew. */
const outdated = new Set(['not_found', 'purged', 'gap', 'closed']);

/** away are the codes of errors by which no worker has the state. */
const away = new Set(['no_worker', 'unserved', 'unavailable']);

/** LiveSession follows a session while somebody watches it: it is read once, and continued by its events. */
export class LiveSession {
  #state = unread;
  readonly #watchers = new Set<() => void>();
  readonly #listeners = new Set<(event: SessionEvent) => void>();
  #following: Following | undefined;
  #notification: ReturnType<typeof setTimeout> | undefined;
  #goodbye: ReturnType<typeof setTimeout> | undefined;

  /** Of one client and id, Client.live returns the same one. */
  constructor(readonly client: Client, readonly id: string) {}

  /** state returns what is known now; the same value until something changes. */
  readonly state = (): LiveState => this.#state;

  /** watch calls back when the state has changed, at most sixty times a second, and returns what ends that. */
  readonly watch = (changed: () => void): (() => void) => {
    const watcher = () => changed();
    this.#watchers.add(watcher);
    clearTimeout(this.#goodbye);
    this.#following ??= new Following(this.client, this.id, this.state, (change) => this.#set(change), (event) => this.#pass(event));
    return () => {
      if (this.#watchers.delete(watcher) && this.#watchers.size === 0) this.#goodbye = setTimeout(() => this.#stop(), grace);
    };
  };

  /** listen calls back with each event that comes while the session is watched, and returns what ends that. */
  readonly listen = (onEvent: (event: SessionEvent) => void): (() => void) => {
    const listener = (event: SessionEvent) => onEvent(event);
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  /** watchFiles is watch, and keeps the state's files. */
  readonly watchFiles = (changed: () => void): (() => void) => {
    const end = this.watch(changed);
    this.#following!.files.want();
    return end;
  };

  /** refresh asks for the session's state again: not all that changes it makes an event. */
  refresh(): void {
    this.#following?.inspector.ask();
  }

  /** reload reads the session anew. */
  reload(): void {
    this.#following?.reload();
  }

  #stop(): void {
    this.#following?.end();
    this.#following = undefined;
    this.#state = unread;
  }

  #set(change: Partial<LiveState>): void {
    this.#state = { ...this.#state, ...change };
    this.#notification ??= setTimeout(() => {
      this.#notification = undefined;
      for (const watcher of [...this.#watchers]) call(watcher);
    }, frame);
  }

  #pass(event: SessionEvent): void {
    for (const listener of [...this.#listeners]) call(() => listener(event));
  }
}

/** Change changes the state of a session. */
type Change = (change: Partial<LiveState>) => void;

/** Following is one time that a session is followed. */
class Following {
  readonly files: Files;
  readonly #ended = new AbortController();
  readonly inspector: Inspector;
  readonly #forget: () => void;
  #leave: (() => void) | undefined;
  #isReading = false;
  /** #again: the session may be another than what is being read. */
  #again = false;
  #failures = 0;
  #retry: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly client: Client, readonly id: string,
    readonly state: () => LiveState, readonly set: Change, readonly pass: (event: SessionEvent) => void,
  ) {
    this.files = new Files(client, id, (change) => set(change), this.#ended.signal);
    this.inspector = new Inspector(client, id, set, this.#ended.signal);
    // A closed session has no room to be in: the changes of lists have that it was opened again.
    this.#forget = client.onListChange((change) => {
      if (change.sessionId !== id && change.kind !== 'missed') return;
      this.#again = true;
      if (!this.#leave && !this.#isReading) this.reload();
    });
    void this.#read();
  }

  end(): void {
    this.#ended.abort(new Error('the session is not followed any more'));
    this.#forget();
    this.#leave?.();
    clearTimeout(this.#retry);
  }

  /** reload reads the session anew; one that is being read is read once more. */
  reload(): void {
    this.#out();
    this.#again = true;
    if (!this.#isReading) void this.#read();
  }

  /** #out leaves the room. */
  #out(): void {
    this.#leave?.();
    this.#leave = undefined;
    this.inspector.stop();
    clearTimeout(this.#retry);
    if (this.state().connected) this.set({ connected: false });
  }

  /** #read reads the session, and continues it from there. One that is closed, or can't be read, is read again if it has changed meanwhile. */
  async #read(): Promise<void> {
    this.#isReading = true;
    do {
      this.#again = false;
      clearTimeout(this.#retry);
      try {
        const shown = await this.client.show(this.id, this.#ended.signal);
        if (!this.#ended.signal.aborted) this.#show(shown);
      } catch (error) {
        if (!this.#ended.signal.aborted) this.#failed(error as Error);
      }
    } while (this.#again && !this.#leave && !this.#ended.signal.aborted);
    this.#isReading = false;
  }

  #show({ state, asks, inspection, lastSeq = 0, open, ...session }: Shown): void {
    this.set({
      loading: false, error: undefined, conversation: state, lastSeq, session, inspection, closed: !open,
      permissions: open ? (asks ?? []).flatMap((e) => (e.type === 'permission:requested' ? [e.payload] : [])) : [],
    });
    this.files.begin();
    if (!open) return;
    this.#continue(lastSeq);
  }

  /** #continue continues the conversation behind an event. The state that is known is older. */
  #continue(after: number): void {
    this.inspector.ask();
    this.#leave = this.client.rooms.join(this.id, after, {
      onEvent: (event) => this.#receive(event),
      onConnected: (connected, error) => this.set(error || connected ? { connected, error } : { connected }),
      onEnd: (error) => {
        this.#out();
        if (error) return this.#failed(error, outdated.has(error.code) ? undefined : () => this.#continue(this.state().lastSeq));
        this.set({ closed: true, inspection: undefined, permissions: [] });
        this.reload(); // the archive has it now; it may be open again
      },
    });
  }

  /** #failed says why the session is not followed, and tries again unless that is in vain. */
  #failed(error: Error, again: () => void = () => this.reload()): void {
    this.set({ loading: false, error });
    if (error instanceof GatewayError && inVain.has(error.code)) return;
    clearTimeout(this.#retry);
    this.#retry = setTimeout(again, Math.min(longestRetry, firstRetry * 2 ** this.#failures++));
  }

  #receive(event: SessionEvent): void {
    this.#failures = 0;
    const before = this.state();
    const change: { -readonly [K in keyof LiveState]?: LiveState[K] } = {
      conversation: reduce(before.conversation, event), lastSeq: event.context.seq ?? before.lastSeq,
    };
    switch (event.type) {
      case 'permission:requested':
        change.permissions = [...without(before.permissions, event.payload.requestId), event.payload];
        break;
      case 'permission:resolved':
        change.permissions = without(before.permissions, event.payload.requestId);
        break;
      case 'query:completed':
      case 'query:failed':
      case 'query:interrupted':
        if (!event.payload.queued) change.permissions = []; // a turn's requests end with it
        break;
      case 'log':
        change.logs = [...before.logs, { ...event.payload, timestamp: event.context.timestamp, seq: event.context.seq }].slice(-mostLogs);
    }
    this.set(change);
    this.files.receive(event);
    this.inspector.receive(event);
    this.pass(event);
  }
}

/**
 * Inspector asks for the state of an open session when an event may have changed it, and again after
 * pauses that double: the session's workflow learns of a turn's end and of requests after the stream
 * has them. While no worker has the state it continues to ask.
 */
class Inspector {
  #next: { pause: number; timer: ReturnType<typeof setTimeout> } | undefined;
  /** #asks counts what was stopped, whose answers come too late. */
  #asks = 0;

  constructor(readonly client: Client, readonly id: string, readonly set: Change, readonly ended: AbortSignal) {
    ended.addEventListener('abort', () => clearTimeout(this.#next?.timer));
  }

  receive(event: SessionEvent): void {
    if (!/^(block:|native$|log$|file:|transcript:)/.test(event.type)) this.ask();
  }

  /** ask asks after a pause, unless it does so sooner already. */
  ask(pause = settling): void {
    if (this.ended.aborted || (this.#next && this.#next.pause <= pause)) return;
    clearTimeout(this.#next?.timer);
    this.#next = { pause, timer: setTimeout(() => void this.#askNow(pause), pause) };
  }

  /** stop asks no more, until it is asked to again. */
  stop(): void {
    clearTimeout(this.#next?.timer);
    this.#next = undefined;
    this.#asks++;
  }

  async #askNow(pause: number): Promise<void> {
    this.#next = undefined;
    const asks = this.#asks;
    let answered = true;
    try {
      const inspection = await this.client.state(this.id, this.ended);
      if (this.#asks === asks) this.set({ inspection });
    } catch (error) {
      answered = false; // a session's end comes by its room
      if (error instanceof GatewayError && away.has(error.code) && this.#asks === asks) this.set({ inspection: undefined });
    }
    if (this.#asks !== asks) return;
    if (pause < settled || !answered) this.ask(Math.min(settled, pause * 2));
  }
}

/** Files are a session's workspace as it was archived, with what the events have changed since. */
class Files {
  #wanted = false;
  #reading = false;
  /** #stale: it has to be read once more. */
  #stale = false;
  #failures = 0;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #archived: WorkspaceFile[] | undefined;
  /** #changed has the changed files by path, null for one that is gone. */
  readonly #changed = new Map<string, WorkspaceFile | null>();

  constructor(readonly client: Client, readonly id: string, readonly set: Change, readonly ended: AbortSignal) {
    ended.addEventListener('abort', () => clearTimeout(this.#retry));
  }

  /** want has them read from now on. */
  want(): void {
    if (this.#wanted) return;
    this.#wanted = true;
    void this.#read();
  }

  /** begin forgets the changes: the session was read anew. */
  begin(): void {
    this.#changed.clear();
    void this.#read();
  }

  receive(event: SessionEvent): void {
    switch (event.type) {
      case 'file:created':
      case 'file:modified': {
        const { path, size = 0, sha256 } = event.payload;
        this.#changed.set(path, { path, mode: 0o644, size, sha256, modTime: event.context.timestamp });
        return this.#show();
      }
      case 'file:deleted':
        this.#changed.set(event.payload.path, null);
        return this.#show();
      case 'transcript:changed': // the archive was written
      case 'query:completed':
      case 'query:failed':
      case 'query:interrupted':
        void this.#read();
    }
  }

  /** #read reads the archive's, one time after the other. */
  async #read(): Promise<void> {
    this.#stale = true;
    if (!this.#wanted || this.#reading) return;
    this.#reading = true;
    clearTimeout(this.#retry);
    while (this.#stale && !this.ended.aborted) {
      this.#stale = false;
      try {
        this.#archived = await this.client.files(this.id, this.ended);
        this.#failures = 0;
        this.set({ filesError: undefined });
      } catch (error) {
        if (this.ended.aborted) break;
        this.#failed(error as Error);
      }
      this.#show();
    }
    this.#reading = false;
  }

  #failed(error: Error): void {
    if (error instanceof GatewayError && (error.code === 'not_found' || error.code === 'not_begun')) {
      this.#archived ??= []; // nothing is archived yet
      return this.set({ filesError: undefined });
    }
    this.set({ filesError: error });
    if (error instanceof GatewayError && inVain.has(error.code)) return;
    this.#retry = setTimeout(() => void this.#read(), Math.min(longestRetry, firstRetry * 2 ** this.#failures++));
  }

  #show(): void {
    if (!this.#archived) return;
    const archived = new Map(this.#archived.map((f) => [f.path, f]));
    const kept = this.#archived.filter((f) => typeof f.path !== 'string' || !this.#changed.has(f.path));
    const changed = [...this.#changed.values()].flatMap((f) => (f ? [{ ...f, mode: archived.get(f.path)?.mode ?? f.mode }] : []));
    this.set({ files: [...kept, ...changed].sort((a, b) => (name(a) < name(b) ? -1 : 1)) });
  }
}

function name(f: WorkspaceFile): string {
  return typeof f.path === 'string' ? f.path : atob(f.path.base64);
}

function without(requests: readonly PermissionRequested[], id: string): PermissionRequested[] {
  return requests.filter((r) => r.requestId !== id);
}
