import { call } from './calls.js';
import { GatewayError, type Problem } from './errors.js';
import type { SessionEvent, StreamChange } from './types.js';

/** Listener takes an event of a socket. Platforms have different types of those. */
type Listener = ((event: any) => void) | null;

/** Socket is what is used of a WebSocket. */
export interface Socket {
  send(data: string): void;
  close(): void;
  onopen: Listener;
  onmessage: Listener;
  onclose: Listener;
  onerror: Listener;
}

/** Room is what comes of one session. */
export interface Room {
  /** onEvent gets each event behind the number with which the room was joined, once and in order. */
  onEvent(event: SessionEvent): void;
  /** onEnd is called when nothing more comes: the session was closed, or the error is why. */
  onEnd?(error?: GatewayError): void;
  /** onConnected is called at once, and whenever the connection is made or lost; the error is why there can be none. Events that are missed meanwhile come later. */
  onConnected?(connected: boolean, error?: Error): void;
}

/** Member is somebody in a room, with the number of the last event that they have. */
interface Member {
  room: Room;
  after: number;
}

/** Sent is what a gateway sends. */
interface Sent {
  room?: string;
  event?: SessionEvent | ListEvent;
  left?: boolean;
  error?: Problem;
  /** after is that of the join which has ended. */
  after?: number;
}

interface ListEvent {
  type: 'sessions:changed';
  payload: StreamChange;
}

/** allLists is the room of changes of lists. */
const allLists = '*';

/** A lost connection is made anew after firstPause, twice that, and so on to longestPause, in milliseconds. */
const firstPause = 250;
const longestPause = 10_000;

/** A connection that lasted so many milliseconds was in order; behind a shorter one the pause still grows. */
const lasting = 5_000;

/** After so many failures in a row it is asked by a request why, since a WebSocket does not say. */
const suspicious = 3;

/** ofTheFirst are the codes of errors that concern only who asked for the earliest events. */
const ofTheFirst = new Set(['purged', 'gap']);

/** mostWaiting is how many events wait for a slow reader before its room is left until it has read them. */
const mostWaiting = 1_000;

/**
 * Rooms has the events of any number of sessions over one WebSocket. It is connected while somebody
 * is in a room. A lost connection is made again, and each room continues behind the last event that
 * it had: none is missed, none comes twice.
 */
export class Rooms {
  readonly #open: () => Socket;
  readonly #check: () => Promise<unknown>;
  #socket: Socket | undefined;
  #connected = false;
  #failure: Error | undefined;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #failures = 0;
  #since = 0;
  readonly #rooms = new Map<string, Member[]>();
  /** #joined has the number behind which each room was last joined. */
  readonly #joined = new Map<string, number>();
  readonly #lists = new Set<(change: StreamChange) => void>();

  /** open opens a socket; check makes any request of the gateway, and fails as that does. */
  constructor(open: () => Socket, check: () => Promise<unknown> = async () => {}) {
    this.#open = open;
    this.#check = check;
  }

  /** join enters a session's room behind event number `after`, and returns what leaves it. */
  join(id: string, after: number, room: Room): () => void {
    const member: Member = { room, after };
    this.#rooms.set(id, [...(this.#rooms.get(id) ?? []), member]);
    call(() => room.onConnected?.(this.#connected, this.#failure));
    this.#enter(id);
    return () => this.#leave(id, member);
  }

  /** lists calls back whenever a list of sessions has changed, and returns what ends that. */
  lists(changed: (change: StreamChange) => void): () => void {
    const listener = (change: StreamChange) => changed(change);
    this.#lists.add(listener);
    if (this.#lists.size === 1) this.#enter(allLists);
    return () => {
      if (this.#lists.delete(listener) && this.#lists.size === 0) this.#exit(allLists);
    };
  }

  /** events is Client.events. */
  events(id: string, after: number, signal?: AbortSignal): AsyncGenerator<SessionEvent, void, undefined> {
    const reader = new Reader(this, id, after);
    const events = reader.read(signal);
    const end = events.return.bind(events);
    events.return = (value) => {
      reader.end(); // it may be waiting for an event, and would return behind that
      return end(value);
    };
    return events;
  }

  /** #enter joins a room behind the earliest event that one of its members lacks. */
  #enter(id: string): void {
    if (!this.#socket && !this.#retry) return this.#connect();
    if (!this.#connected) return; // all rooms are entered then
    const after = first(this.#rooms.get(id) ?? []);
    this.#joined.set(id, after);
    this.#socket!.send(JSON.stringify(id === allLists ? { join: id } : { join: id, after }));
  }

  #leave(id: string, member: Member): void {
    const members = this.#rooms.get(id);
    if (!members?.includes(member)) return;
    const others = members.filter((m) => m !== member);
    if (others.length) this.#rooms.set(id, others);
    else {
      this.#rooms.delete(id);
      this.#exit(id);
    }
  }

  /** #exit leaves a room, and disconnects behind the last one. */
  #exit(id: string): void {
    if (this.#connected) this.#socket!.send(JSON.stringify({ leave: id }));
    this.#disconnectIfEmpty();
  }

  #disconnectIfEmpty(): void {
    if (this.#rooms.size || this.#lists.size) return;
    clearTimeout(this.#retry);
    this.#retry = undefined;
    this.#failures = 0;
    this.#failure = undefined;
    const socket = this.#socket;
    this.#socket = undefined;
    this.#connected = false;
    socket?.close();
  }

  #connect(): void {
    this.#retry = undefined;
    let socket: Socket;
    try {
      socket = this.#open();
    } catch (error) {
      return this.#disconnected(error as Error);
    }
    this.#socket = socket;
    socket.onopen = () => {
      if (this.#socket !== socket) return socket.close();
      this.#since = Date.now();
      this.#setConnected(true);
      for (const id of this.#rooms.keys()) this.#enter(id);
      if (this.#lists.size) this.#enter(allLists); // with what may have been missed
    };
    socket.onmessage = (e: { data: unknown }) => {
      if (this.#socket === socket) this.#receive(JSON.parse(String(e.data)) as Sent);
    };
    socket.onerror = () => {}; // it is closed then
    socket.onclose = () => {
      if (this.#socket === socket) this.#disconnected();
    };
  }

  #disconnected(failure?: Error): void {
    this.#socket = undefined;
    if (this.#connected && Date.now() - this.#since >= lasting) this.#failures = 0;
    if (this.#failures === suspicious) this.#check().catch((error) => this.#refused(error));
    const most = Math.min(longestPause, firstPause * 2 ** this.#failures++);
    this.#retry = setTimeout(() => this.#connect(), most * (0.5 + Math.random() / 2));
    this.#setConnected(false, failure);
  }

  /** #refused ends all rooms if the gateway takes no request of this client. */
  #refused(error: unknown): void {
    if (this.#connected || !(error instanceof GatewayError) || error.code !== 'unauthorized') return;
    for (const id of [...this.#rooms.keys()]) this.#finish(id, error);
  }

  #setConnected(connected: boolean, failure?: Error): void {
    if (this.#connected === connected && this.#failure === failure) return;
    this.#connected = connected;
    this.#failure = failure;
    for (const members of [...this.#rooms.values()]) for (const m of members) call(() => m.room.onConnected?.(connected, failure));
  }

  #receive(sent: Sent): void {
    const id = sent.room ?? '';
    if (id === allLists) return this.#receiveChange(sent);
    const members = this.#rooms.get(id) ?? [];
    if (sent.event && sent.event.type !== 'sessions:changed') {
      const { event } = sent;
      for (const m of members) {
        // Numbers are dense. Others are on their way from before somebody joined further back.
        if (event.context.seq !== m.after + 1) continue;
        m.after++;
        call(() => m.room.onEvent(event));
      }
      return;
    }
    if ((sent.after ?? 0) === this.#joined.get(id)) this.#finish(id, sent.error && GatewayError.of(sent.error));
  }

  /** #finish ends a room for its members, or for those whom the error concerns. */
  #finish(id: string, error: GatewayError | undefined): void {
    const members = this.#rooms.get(id) ?? [];
    const least = first(members);
    const others = error && ofTheFirst.has(error.code) ? members.filter((m) => m.after > least) : [];
    if (others.length) {
      this.#rooms.set(id, others);
      this.#enter(id);
    } else this.#rooms.delete(id);
    for (const m of members) if (!others.includes(m)) call(() => m.room.onEnd?.(error));
    this.#disconnectIfEmpty();
  }

  #receiveChange(sent: Sent): void {
    if (sent.event?.type === 'sessions:changed') {
      const change = sent.event.payload;
      for (const changed of [...this.#lists]) call(() => changed(change));
    } else {
      setTimeout(() => { if (this.#lists.size) this.#enter(allLists); }, longestPause); // it has ended in an error
    }
  }
}

/** first returns the least number that a member has. */
function first(members: Member[]): number {
  return Math.min(...members.map((m) => m.after));
}

/** Reader is one reading of a room as a sequence. */
class Reader {
  #waiting: SessionEvent[] = [];
  #ended: { error?: unknown } | undefined;
  #wake = () => {};
  #leave: (() => void) | undefined;

  constructor(readonly rooms: Rooms, readonly id: string, public after: number) {}

  /** end ends the reading behind what waits. */
  end(error?: unknown): void {
    this.#ended ??= { error };
    this.#wake();
  }

  /** #abort ends it now. */
  #abort(reason: unknown): void {
    this.#waiting = [];
    this.#ended = { error: reason };
    this.#wake();
  }

  async *read(signal?: AbortSignal): AsyncGenerator<SessionEvent, void, undefined> {
    const aborted = () => this.#abort(signal!.reason);
    try {
      signal?.throwIfAborted();
      signal?.addEventListener('abort', aborted);
      this.#enter();
      for (;;) {
        for (let event = this.#waiting.shift(); event; event = this.#waiting.shift()) {
          this.after = event.context.seq!;
          yield event;
        }
        if (this.#ended?.error) throw this.#ended.error;
        if (this.#ended) return;
        if (!this.#leave) this.#enter();
        await new Promise<void>((resolve) => { this.#wake = resolve; if (this.#waiting.length || this.#ended) resolve(); });
      }
    } finally {
      signal?.removeEventListener('abort', aborted);
      this.#leave?.();
    }
  }

  /** #enter joins behind the last event that was read. A room whose events are not read is left. */
  #enter(): void {
    let full = false;
    this.#leave = this.rooms.join(this.id, this.after, {
      onEvent: (event) => {
        if (full) return;
        this.#waiting.push(event);
        full = this.#waiting.length >= mostWaiting;
        if (full) { this.#leave?.(); this.#leave = undefined; }
        this.#wake();
      },
      onEnd: (error) => this.end(error),
      onConnected: (_, error) => { if (error) this.end(error); },
    });
  }
}
