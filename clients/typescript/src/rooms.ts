import { GatewayError, type Problem } from './client.js';
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
  /** onConnected is called whenever the connection is made or lost. Events that are missed meanwhile come later. */
  onConnected?(connected: boolean): void;
}

interface Member extends Room {
  after: number;
}

/** Sent is what a gateway sends. */
interface Sent {
  room?: string;
  event?: SessionEvent | ListEvent;
  left?: boolean;
  error?: Problem;
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

/** mostWaiting is how many events wait for a slow reader before its room is left until it has read them. */
const mostWaiting = 1_000;

/**
 * Rooms has the events of any number of sessions over one WebSocket. It is connected while somebody
 * is in a room. A lost connection is made again, and each room continues behind the last event that
 * it had: none is missed, none comes twice.
 */
export class Rooms {
  readonly #open: () => Socket;
  #socket: Socket | undefined;
  #connected = false;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #failures = 0;
  readonly #rooms = new Map<string, Member[]>();
  readonly #lists = new Set<(change: StreamChange) => void>();

  constructor(open: () => Socket) {
    this.#open = open;
  }

  /** join enters a session's room behind event number `after`, and returns what leaves it. */
  join(id: string, after: number, room: Room): () => void {
    const member: Member = Object.assign(Object.create(room) as Room, { after });
    const members = this.#rooms.get(id) ?? [];
    this.#rooms.set(id, [...members, member]);
    if (this.#connected) room.onConnected?.(true);
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
  async *events(id: string, after: number, signal?: AbortSignal): AsyncGenerator<SessionEvent, void, undefined> {
    let waiting: SessionEvent[] = [];
    let end: { error?: unknown } | undefined;
    let wake = () => {};
    let leave: (() => void) | undefined;
    const enter = () => this.join(id, after, {
      onEvent: (event) => {
        waiting.push(event);
        if (waiting.length >= mostWaiting) { leave?.(); leave = undefined; }
        wake();
      },
      onEnd: (error) => { end = { error }; wake(); },
    });
    const aborted = () => { end = { error: signal!.reason }; waiting = []; wake(); };
    signal?.throwIfAborted();
    signal?.addEventListener('abort', aborted);
    leave = enter();
    try {
      for (;;) {
        for (let event = waiting.shift(); event; event = waiting.shift()) {
          after = event.context.seq ?? after;
          yield event;
        }
        if (end?.error) throw end.error;
        if (end) return;
        leave ??= enter();
        await new Promise<void>((resolve) => { wake = resolve; if (waiting.length || end) resolve(); });
      }
    } finally {
      signal?.removeEventListener('abort', aborted);
      leave?.();
    }
  }

  /** #enter joins a room behind the earliest event that one of its members lacks. */
  #enter(id: string): void {
    if (!this.#socket && !this.#retry) return this.#connect();
    if (!this.#connected) return; // all rooms are entered then
    const after = Math.min(...(this.#rooms.get(id) ?? []).map((m) => m.after));
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
    if (this.#rooms.size || this.#lists.size) return;
    clearTimeout(this.#retry);
    this.#retry = undefined;
    const socket = this.#socket;
    this.#socket = undefined;
    this.#setConnected(false);
    socket?.close();
  }

  #connect(): void {
    this.#retry = undefined;
    const socket = this.#open();
    this.#socket = socket;
    socket.onopen = () => {
      if (this.#socket !== socket) return socket.close();
      const again = this.#failures > 0;
      this.#failures = 0;
      this.#setConnected(true);
      for (const id of this.#rooms.keys()) this.#enter(id);
      if (!this.#lists.size) return;
      this.#enter(allLists);
      if (again) for (const changed of this.#lists) changed({ kind: 'missed' });
    };
    socket.onmessage = (e: { data: unknown }) => {
      if (this.#socket === socket) this.#receive(JSON.parse(String(e.data)) as Sent);
    };
    socket.onerror = () => {}; // it is closed then
    socket.onclose = () => {
      if (this.#socket !== socket) return;
      this.#socket = undefined;
      this.#setConnected(false);
      const most = Math.min(longestPause, firstPause * 2 ** this.#failures++);
      this.#retry = setTimeout(() => this.#connect(), most * (0.5 + Math.random() / 2));
    };
  }

  #setConnected(connected: boolean): void {
    if (this.#connected === connected) return;
    this.#connected = connected;
    for (const members of this.#rooms.values()) for (const m of members) m.onConnected?.(connected);
  }

  #receive(sent: Sent): void {
    const room = sent.room ?? '';
    if (room === allLists) {
      if (sent.event?.type === 'sessions:changed') for (const changed of this.#lists) changed(sent.event.payload);
      return;
    }
    const members = this.#rooms.get(room) ?? [];
    if (sent.event && sent.event.type !== 'sessions:changed') {
      const seq = sent.event.context.seq ?? 0;
      for (const m of members) {
        if (seq <= m.after) continue; // another member joined further back
        m.after = seq;
        m.onEvent(sent.event);
      }
      return;
    }
    this.#rooms.delete(room);
    const p = sent.error;
    const error = p && new GatewayError(p.message, 0, p.code, p.field, p.reason, p.want);
    for (const m of members) m.onEnd?.(error);
    if (!this.#rooms.size && !this.#lists.size) this.#exit(room);
  }
}
