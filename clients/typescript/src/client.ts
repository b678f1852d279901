import { pause } from './calls.js';
import { GatewayError, type Problem } from './errors.js';
import { LiveSession } from './live.js';
import { Rooms, type Socket } from './rooms.js';
import type {
  Configure, Conversation, Inspection, InterruptReply, InterruptRequest, Message, Options, Page, Receipt, RespondRequest, Result,
  SessionEvent, StreamChange,
} from './types.js';

/** ClientOptions are where a gateway is, and how it is reached. */
export interface ClientOptions {
  /** url is the gateway's, such as http://127.0.0.1:7244. */
  url: string;
  /** token is what every request must have. Whoever can read a page has it: give a page one that is its user's own. */
  token: string;
  /** fetch makes requests. Default: the platform's. */
  fetch?: typeof fetch | undefined;
  /** WebSocket opens connections. Default: the platform's, which Node.js has from version 22 on; before that, that of the package ws. */
  WebSocket?: (new (url: string) => Socket) | undefined;
}

/** Shown is a session as `show` returns it: its conversation, and the state of one that is open. */
export interface Shown extends Conversation {
  open: boolean;
  /** inspection is missing while no worker has it. */
  inspection?: Inspection;
}

/** WorkspaceFile is a file, folder or symlink of a session's workspace. A path that is not UTF-8 is its bytes in base64. */
export interface WorkspaceFile {
  path: string | { base64: string };
  /** mode is Go's fs.FileMode: the type, and the permission bits in the lowest nine. */
  mode: number;
  /** size is in bytes. */
  size: number;
  /** sha256 of a regular file, in hexadecimal. */
  sha256?: string;
  modTime?: string;
  link?: string | { base64: string };
  /** held: it is in the archive but could not be restored in the sandbox. */
  held?: boolean;
}

/** ListOptions choose sessions, see Go's session.ListOptions. */
export interface ListOptions {
  /** limit is the size of a page, 1 to 1000. Default: 50. */
  limit?: number | undefined;
  /** page is the last page's `next`. Default: the first page. */
  page?: string | undefined;
  /** query is a visibility query of Temporal's. */
  query?: string | undefined;
  /** children includes the sessions that others have spawned. */
  children?: boolean | undefined;
}

/** attempts is how often a request is made whose answer is lost; firstPause, in milliseconds, doubles with each. */
const attempts = 4;
const firstPause = 250;

/** unanswered is the code of errors of servers in between. */
const unanswered = 'unanswered';

/** patient is how long, in milliseconds, a result was waited for that is waited for anew. */
const patient = 20_000;

/**
 * Client makes the requests of one gateway, see Go's package gateway. A request whose answer is lost
 * is made again if that is harmless: a message has an id, and is taken once. Errors: GatewayError, or
 * the error of fetch. A signal ends the wait for an answer; what was asked for may still be done.
 */
export class Client {
  /** rooms has the events of sessions, over one WebSocket. */
  readonly rooms: Rooms;
  readonly #url: string;
  readonly #token: string;
  readonly #fetch: typeof fetch;
  readonly #live = new Map<string, LiveSession>();

  constructor(o: ClientOptions) {
    this.#url = o.url.replace(/\/+$/, '');
    this.#token = o.token;
    const fetch = o.fetch ?? globalThis.fetch;
    this.#fetch = (input, init) => fetch(input, init); // browsers refuse one that is called as a method
    this.rooms = new Rooms(() => {
      const Opens = o.WebSocket ?? (globalThis.WebSocket as ClientOptions['WebSocket']);
      if (!Opens) throw new Error('this platform has no WebSocket: pass that of the package ws');
      return new Opens(`${this.#url.replace(/^http/, 'ws')}/ws?access_token=${encodeURIComponent(this.#token)}`);
    }, () => this.list({ limit: 1 }));
  }

  /** create creates a session, and returns its id. Without an id of yours it has a new UUID. */
  async create(options: Options & { id?: string }, signal?: AbortSignal): Promise<string> {
    return (await this.#json<{ id: string }>('POST', '/sessions', options, signal)).id;
  }

  /** list returns a page of sessions, newest first. */
  list(o: ListOptions = {}, signal?: AbortSignal): Promise<Page> {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(o)) if (value !== undefined) query.set(name, String(value));
    return this.#json('GET', `/sessions?${query}`, undefined, signal);
  }

  /** show returns a conversation, to event lastSeq, and the state of an open session. */
  show(id: string, signal?: AbortSignal): Promise<Shown> {
    return this.#json('GET', at(id), undefined, signal);
  }

  /** state returns the state of an open session. */
  state(id: string, signal?: AbortSignal): Promise<Inspection> {
    return this.#json('GET', at(id) + '/state', undefined, signal);
  }

  /** send sends a message to the agent, and returns when it is accepted. */
  send(id: string, message: Message | string, signal?: AbortSignal): Promise<Receipt> {
    return this.#json('POST', at(id) + '/messages', whole(message), signal, true);
  }

  /** ask is send, and waits for the result, also where a server in between does not wait as long. */
  async ask(id: string, message: Message | string, signal?: AbortSignal): Promise<Result> {
    const body = whole(message);
    for (;;) {
      const began = Date.now();
      try {
        return await this.#json<Result>('POST', at(id) + '/messages?wait=true', body, signal, true);
      } catch (error) {
        const answered = error instanceof GatewayError && error.code !== unanswered;
        if (answered || signal?.aborted || Date.now() - began < patient) throw error;
      }
    }
  }

  /** result returns how a message, or an execution, ended. While it has not, that is an error of the code busy. */
  result(id: string, message: string, signal?: AbortSignal): Promise<Result> {
    return this.#json('GET', `${at(id)}/messages/${encodeURIComponent(message)}`, undefined, signal);
  }

  /** configure changes options, and of a closed session title, metadata and tags. */
  async configure(id: string, change: Configure, signal?: AbortSignal): Promise<void> {
    await this.#done('PATCH', at(id) + '/options', change, signal, true);
  }

  /** interrupt stops the running turn, and those of all children. */
  interrupt(id: string, request: InterruptRequest = {}, signal?: AbortSignal): Promise<InterruptReply> {
    return this.#json('POST', at(id) + '/interrupt', request, signal);
  }

  /** respond answers a permission request or a question. */
  async respond(id: string, answer: RespondRequest, signal?: AbortSignal): Promise<void> {
    await this.#done('POST', at(id) + '/respond', answer, signal);
  }

  /** sync waits until nothing runs and the archive has what was said. */
  async sync(id: string, signal?: AbortSignal): Promise<void> {
    await this.#done('POST', at(id) + '/sync', undefined, signal, true);
  }

  /** evict ends an idle sandbox; the next message makes another. */
  async evict(id: string, signal?: AbortSignal): Promise<void> {
    await this.#done('POST', at(id) + '/environment/terminate', undefined, signal);
  }

  /** close ends a session; it can be opened again. */
  async close(id: string, signal?: AbortSignal): Promise<void> {
    await this.#done('POST', at(id) + '/close', undefined, signal);
  }

  /** open opens a closed session again; an open one stays as it is. */
  async open(id: string, signal?: AbortSignal): Promise<void> {
    await this.#done('POST', at(id) + '/open', undefined, signal, true);
  }

  /** delete closes a session, and deletes all that is stored of it. */
  async delete(id: string, signal?: AbortSignal): Promise<void> {
    await this.#done('DELETE', at(id), undefined, signal);
  }

  /** fork returns the id of a new session with the conversation up to block `at`, or all of it. */
  async fork(id: string, o: { at?: string | undefined; id?: string | undefined } = {}, signal?: AbortSignal): Promise<string> {
    return (await this.#json<{ id: string }>('POST', at(id) + '/fork', o, signal)).id;
  }

  /** merge returns the id of a new session that has those of all. */
  async merge(ids: string[], id?: string, signal?: AbortSignal): Promise<string> {
    return (await this.#json<{ id: string }>('POST', '/sessions/merge', { ids, id }, signal)).id;
  }

  /** files returns the workspace as it was archived. */
  async files(id: string, signal?: AbortSignal): Promise<WorkspaceFile[]> {
    return (await this.#json<{ files: WorkspaceFile[] | null }>('GET', at(id) + '/files', undefined, signal)).files ?? [];
  }

  /** file returns the content of one of the files. */
  async file(id: string, path: string, signal?: AbortSignal): Promise<Blob> {
    const names = path.split('/').map(encodeURIComponent).join('/');
    return this.#request('GET', `${at(id)}/files/${names}`, undefined, signal, true, (response) => response.blob());
  }

  /**
   * events yields the events behind number `after`, each once and in order, until the session is
   * closed. It survives lost connections. What is not taken is not buffered without bound.
   */
  events(id: string, after = 0, signal?: AbortSignal): AsyncGenerator<SessionEvent, void, undefined> {
    return this.rooms.events(id, after, signal);
  }

  /** onListChange calls back whenever a shown list of sessions has to be fetched again; it returns what ends that. */
  onListChange(changed: (change: StreamChange) => void): () => void {
    return this.rooms.lists(changed);
  }

  /** live returns what follows a session while it is watched, the same one for the same id. */
  live(id: string): LiveSession {
    const known = this.#live.get(id) ?? new LiveSession(this, id);
    this.#live.set(id, known);
    return known;
  }

  #json<T>(method: string, path: string, body?: unknown, signal?: AbortSignal, repeatable?: boolean): Promise<T> {
    return this.#request(method, path, body, signal, repeatable, (response) => response.json() as Promise<T>);
  }

  /** #done makes a request whose answer says no more than that it is done. It is read: a connection is kept for an answer that is not. */
  async #done(method: string, path: string, body?: unknown, signal?: AbortSignal, repeatable?: boolean): Promise<void> {
    await this.#request(method, path, body, signal, repeatable, (response) => response.arrayBuffer());
  }

  /** #request makes a request, and reads its answer. One to read is repeatable, others are if they say so. */
  async #request<T>(
    method: string, path: string, body: unknown, signal: AbortSignal | undefined, repeatable = method === 'GET', read: (response: Response) => Promise<T>,
  ): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      let failure: unknown;
      try {
        const response = await this.#fetch(this.#url + path, {
          method,
          headers: { Authorization: `Bearer ${this.#token}`, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
          ...(signal ? { signal } : {}),
        });
        if (response.ok) return await read(response);
        const problem = await problemOf(response);
        if (problem) throw problem;
        failure = new GatewayError(`${method} ${path}: ${response.status} ${response.statusText}`, unanswered, response.status);
        if (response.status < 500) throw failure;
      } catch (error) {
        if (error instanceof GatewayError || signal?.aborted) throw error;
        // No answer has come, or not all of it.
        failure = error instanceof SyntaxError ? new GatewayError(`${method} ${path}: the answer is no JSON`, unanswered, 0) : error;
      }
      if (!repeatable || attempt === attempts) throw failure;
      await pause(firstPause * 2 ** (attempt - 1), signal);
    }
  }
}

function at(id: string): string {
  return '/sessions/' + encodeURIComponent(id);
}

/** whole returns a message with an id: sent again it is the same message. */
function whole(message: Message | string): Message {
  const given = typeof message === 'string' ? { text: message } : message;
  return given.id ? given : { ...given, id: newID() };
}

/** newID returns a UUID. Pages that are not served securely have no randomUUID. */
function newID(): string {
  if (crypto.randomUUID) return crypto.randomUUID();
  const hex = Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
  return hex.replace(/(.{8})(.{4}).(.{3}).(.{3})(.{12})/, '$1-$2-4$3-8$4-$5');
}

/** problemOf returns a gateway's error; undefined for the answer of a server in between. */
async function problemOf(response: Response): Promise<GatewayError | undefined> {
  try {
    const { error } = (await response.json()) as { error: Problem };
    return typeof error.code === 'string' ? GatewayError.of(error, response.status) : undefined;
  } catch {
    return undefined;
  }
}
