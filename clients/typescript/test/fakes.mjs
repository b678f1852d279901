// A gateway without a network: sessions in memory, a socket and a fetch that reach them.
import { Client } from '../lib/index.js';

/** Gateway has a stream of events for each session, and what clients of it did. */
export class Gateway {
  sessions = new Map();
  sockets = [];
  requests = [];
  /** refuse makes opening a socket fail. */
  refuse = false;
  /** drops makes sockets close as soon as they are open. */
  drops = false;
  /** before is awaited before a request is answered. */
  before = async () => {};

  constructor() {
    const gateway = this;
    this.client = new Client({
      url: 'http://gateway/', token: 'secret',
      fetch: (url, init) => this.#answer(init.method, url.slice('http://gateway'.length), init),
      WebSocket: class { constructor(url) { return new FakeSocket(gateway, url); } },
    });
  }

  session(id, more = {}) {
    const s = { open: true, status: 'idle', events: [], files: [], ...more };
    this.sessions.set(id, s);
    return s;
  }

  /** emit appends an event, and sends it to those in the room. */
  emit(id, type, payload = {}) {
    const s = this.sessions.get(id);
    const event = { type, payload, context: { sessionId: id, seq: s.events.length + 1 } };
    s.events.push(event);
    for (const socket of this.sockets) socket.pass(id, event);
    return event;
  }

  say(id, text) {
    return this.emit(id, 'block:upsert', { block: { id: 'b' + text, type: 'assistant_text', status: 'complete', content: text } });
  }

  /** end closes a session, and ends its room. */
  end(id) {
    this.emit(id, 'session:closed');
    this.sessions.get(id).open = false;
    for (const socket of this.sockets) socket.finish(id, { left: true });
  }

  /** fail ends a room with an error. */
  fail(id, code) {
    for (const socket of this.sockets) socket.finish(id, { error: { code, message: code } });
  }

  change(id, kind) {
    for (const socket of this.sockets) if (socket.rooms.has('*')) socket.tell({ room: '*', event: { type: 'sessions:changed', payload: { sessionId: id, kind }, context: { sessionId: id } } });
  }

  count(method, path) {
    return this.requests.filter((r) => r === `${method} ${path}`).length;
  }

  async #answer(method, path, { signal, body }) {
    this.requests.push(`${method} ${path}`);
    await this.before(method, path, body);
    signal?.throwIfAborted();
    const [, , id, what] = path.split(/[/?]/);
    const s = this.sessions.get(id);
    if (path.startsWith('/sessions?')) return json(200, { sessions: [...this.sessions.keys()].map((sessionId) => ({ sessionId })) });
    if (!s) return json(404, { error: { code: 'not_found', message: `session ${id}: not found` } });
    if (s.fails) return s.fails();
    switch (what) {
      case undefined:
        return json(200, {
          sessionId: id, agent: 'claude', title: id, from: s.open ? 'stream' : 'archive', open: s.open, lastSeq: s.events.length,
          state: { blocks: s.events.flatMap((e) => (e.type === 'block:upsert' ? [e.payload.block] : [])), subagents: [] },
          inspection: s.open && s.status ? { status: s.status, title: id, queuedMessages: [] } : undefined,
        });
      case 'state':
        return s.status ? json(200, { status: s.status, title: id, queuedMessages: [] }) : json(503, { error: { code: 'no_worker', message: 'no worker' } });
      case 'files':
        return json(200, { files: s.files });
      case 'messages':
        return json(202, { sessionId: id, messageId: JSON.parse(body).id });
    }
    return json(404, {});
  }
}

function json(status, body) {
  return new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json' } });
}

class FakeSocket {
  rooms = new Map();
  joined = new Map();
  isOpen = false;

  constructor(gateway, url) {
    if (gateway.refuse) throw new Error('insecure');
    this.gateway = gateway;
    this.url = url;
    gateway.sockets.push(this);
    setImmediate(() => {
      this.isOpen = true;
      this.onopen?.({});
      if (gateway.drops) this.close();
    });
  }

  /** send begins a room behind what was sent of it before, as a gateway does. */
  send(data) {
    if (!this.isOpen) throw new Error('the socket is not open');
    const { join, leave, after = 0 } = JSON.parse(data);
    if (leave) this.rooms.delete(leave);
    if (!join) return;
    this.rooms.set(join, after);
    this.joined.set(join, after);
    const s = this.gateway.sessions.get(join);
    if (s?.purged > after) return this.finish(join, { error: { code: 'purged', message: 'purged' } });
    if (join === '*') this.tell({ room: '*', event: { type: 'sessions:changed', payload: { kind: 'missed' }, context: {} } });
    for (const event of s?.events ?? []) this.pass(join, event);
    if (s?.open === false) this.finish(join, { left: true });
  }

  /** finish ends a room as a gateway does. */
  finish(id, how) {
    if (this.rooms.delete(id)) this.tell({ room: id, ...how, after: this.joined.get(id) || undefined });
  }

  pass(id, event) {
    const after = this.rooms.get(id);
    if (after === undefined || event.context.seq <= after) return;
    this.rooms.set(id, event.context.seq);
    this.tell({ room: id, event });
  }

  /** tell sends a message, which is on its way for a moment. */
  tell(message) {
    setImmediate(() => { if (!this.isClosed) this.onmessage?.({ data: JSON.stringify(message) }); });
  }

  close() {
    if (this.isClosed) return;
    this.isClosed = true;
    this.gateway.sockets = this.gateway.sockets.filter((s) => s !== this);
    setImmediate(() => this.onclose?.({}));
  }
}

/** until waits for a condition. */
export async function until(what, is) {
  for (const late = Date.now() + 20_000; !(await is());) {
    if (Date.now() > late) throw new Error(`${what} did not come`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** turns lets everything that is on its way arrive. */
export async function turns(n = 20) {
  for (let i = 0; i < n; i++) await new Promise((resolve) => setImmediate(resolve));
}
