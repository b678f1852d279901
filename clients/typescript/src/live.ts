import { GatewayError, type Client, type Shown, type WorkspaceFile } from './client.js';
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
  readonly session?: Omit<Shown, 'state' | 'asks' | 'inspection' | 'lastSeq'>;
  /** inspection is the state of an open session: its status, queue, limits, usage, children. */
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
/** settling is the time from an event until the state is asked for, settled the pause behind which it is not asked for again. */
const settling = 150;
const settled = 8000;
/** grace is how long a session is followed that nobody watches any more. */
const grace = 1000;
/** firstRetry doubles with each attempt to read a session. */
const firstRetry = 500;
const longestRetry = 10_000;

/** inVain are the codes of errors that another attempt does not mend. */
const inVain = new Set(['not_found', 'invalid', 'unauthorized']);

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
    this.#following ??= new Following(this.client, this.id, () => this.#state, (change) => this.#set(change), (event) => this.#pass(event));
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
    this.#following!.wantFiles();
    return end;
  };

  /** reload reads the session anew, as after it was opened again. */
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
      for (const watcher of this.#watchers) watcher();
    }, frame);
  }

  #pass(event: SessionEvent): void {
    for (const listener of this.#listeners) listener(event);
  }
}

/** Asking is a question for the session's state, after a pause in milliseconds. */
interface Asking {
  pause: number;
  timer: ReturnType<typeof setTimeout>;
}

/** Following is one time that a session is followed. */
class Following {
  readonly #ended = new AbortController();
  #leave: (() => void) | undefined;
  #failures = 0;
  #reading = 0;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #asking: Asking | undefined;
  /** #over is set when the room's last event has come. */
  #over = false;
  #wantsFiles = false;
  /** #changed are the files that have changed since, by path; null for one that is gone. */
  readonly #changed = new Map<string, WorkspaceFile | null>();
  #archived: WorkspaceFile[] = [];

  constructor(
    readonly client: Client, readonly id: string,
    readonly state: () => LiveState, readonly set: (change: Partial<LiveState>) => void, readonly pass: (event: SessionEvent) => void,
  ) {
    this.#ended.signal.addEventListener('abort', client.onListChange((change) => {
      // A closed session has no room to be in: its list has that it was opened again.
      const concerns = change.sessionId === id || change.kind === 'missed';
      if (concerns && this.state().closed) this.reload();
    }));
    void this.#read();
  }

  end(): void {
    this.#ended.abort(new Error('the session is not followed any more'));
    this.#leave?.();
    clearTimeout(this.#retry);
    clearTimeout(this.#asking?.timer);
  }

  reload(): void {
    this.#leave?.();
    this.#leave = undefined;
    void this.#read();
  }

  /** #read reads the session, and continues it from there. */
  async #read(): Promise<void> {
    const reading = ++this.#reading;
    try {
      const { state, asks, inspection, lastSeq, ...session } = await this.client.show(this.id, this.#ended.signal);
      if (reading !== this.#reading) return;
      const closed = session.from === 'archive' || (inspection ? inspection.status === 'closed' : this.#over);
      this.set({
        loading: false, error: undefined, conversation: state, lastSeq: lastSeq ?? 0, session, inspection, closed,
        permissions: (asks ?? []).flatMap((e) => (e.type === 'permission:requested' ? [e.payload] : [])),
      });
      this.#failures = 0;
      if (this.#wantsFiles) void this.#readFiles();
      if (!closed) this.#join(lastSeq ?? 0);
    } catch (error) {
      if (reading === this.#reading) this.#failed(error as Error);
    }
  }

  #join(after: number): void {
    this.#over = false;
    this.#leave = this.client.rooms.join(this.id, after, {
      onEvent: (event) => this.#receive(event),
      onConnected: (connected) => this.set({ connected }),
      onEnd: (error) => {
        this.#leave = undefined;
        this.#over = !error;
        this.set({ connected: false });
        if (error) this.#failed(error);
        else this.reload(); // it was closed: the archive has it now
      },
    });
  }

  /** #failed says why the session is not followed, and tries again unless that is in vain. */
  #failed(error: Error): void {
    if (this.#ended.signal.aborted) return;
    this.set({ loading: false, error });
    if (error instanceof GatewayError && inVain.has(error.code)) return;
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.reload(), Math.min(longestRetry, firstRetry * 2 ** this.#failures++));
  }

  #receive(event: SessionEvent): void {
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
      case 'session:closed':
        change.permissions = [];
        break;
      case 'log':
        change.logs = [...before.logs, { ...event.payload, timestamp: event.context.timestamp, seq: event.context.seq }].slice(-mostLogs);
        break;
      case 'file:created':
      case 'file:modified':
      case 'file:deleted': {
        const { path, size, sha256 } = event.payload;
        this.#changed.set(path, event.type === 'file:deleted' ? null : { path, mode: 0o644, size: size ?? 0, sha256, modTime: event.context.timestamp });
        if (before.files) change.files = this.#files();
      }
    }
    this.set(change);
    this.pass(event);
    if (changesState(event.type)) this.#ask();
    if (this.#wantsFiles && (event.type === 'transcript:changed' || event.type.startsWith('query:'))) void this.#readFiles();
  }

  /**
   * #ask asks for the session's state a moment later, once for many events, and again after pauses that
   * double: the session's workflow learns of a turn's end and of requests after the stream has them.
   */
  #ask(pause = settling): void {
    if (this.#asking && pause >= this.#asking.pause) return;
    clearTimeout(this.#asking?.timer);
    const asking = { pause, timer: setTimeout(() => void this.#askNow(asking), pause) };
    this.#asking = asking;
  }

  async #askNow(asking: Asking): Promise<void> {
    try {
      const inspection = await this.client.state(this.id, this.#ended.signal);
      if (!this.state().closed) this.set({ inspection });
    } catch {
      // It is asked again, and a session that has ended says so in its room.
    }
    if (this.#asking === asking) this.#asking = undefined;
    if (asking.pause < settled && !this.state().closed && !this.#ended.signal.aborted) this.#ask(asking.pause * 2);
  }

  wantFiles(): void {
    if (this.#wantsFiles) return;
    this.#wantsFiles = true;
    if (!this.state().loading) void this.#readFiles();
  }

  async #readFiles(): Promise<void> {
    try {
      this.#archived = await this.client.files(this.id, this.#ended.signal);
      this.set({ files: this.#files(), filesError: undefined });
    } catch (error) {
      if (this.#ended.signal.aborted) return;
      // A session without an archive yet has no files.
      const none = error instanceof GatewayError && error.code === 'not_found';
      this.set(none ? { files: this.#files() } : { filesError: error as Error });
    }
  }

  /** #files is the workspace as it was archived, with what has changed since. */
  #files(): WorkspaceFile[] {
    const kept = this.#archived.filter((f) => typeof f.path !== 'string' || !this.#changed.has(f.path));
    const mode = new Map(this.#archived.map((f) => [f.path, f.mode]));
    const changed = [...this.#changed.values()].flatMap((f) => (f ? [{ ...f, mode: mode.get(f.path) ?? f.mode }] : []));
    return [...kept, ...changed].sort((a, b) => (name(a) < name(b) ? -1 : 1));
  }
}

function name(f: WorkspaceFile): string {
  return typeof f.path === 'string' ? f.path : atob(f.path.base64);
}

function without(requests: readonly PermissionRequested[], id: string): PermissionRequested[] {
  return requests.filter((r) => r.requestId !== id);
}

/** changesState reports whether the session's state may be another after an event of a type. */
function changesState(type: SessionEvent['type']): boolean {
  return !/^(block:|native$|log$|file:|transcript:)/.test(type);
}
