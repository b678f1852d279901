import { call } from './calls.js';
import type { Client, ListOptions } from './client.js';
import type { Summary } from './types.js';

/** SessionListOptions choose sessions. */
export interface SessionListOptions extends Omit<ListOptions, 'page'> {
  /** everyMs is how often the statuses and figures in the list are read again, in milliseconds, while the page is seen. Default: 5000; 0 is never. */
  everyMs?: number | undefined;
}

/** SessionListState is what a list has now. */
export interface SessionListState {
  readonly sessions: readonly Summary[];
  /** loading is true until the list was read for the first time, or can't be. */
  readonly loading: boolean;
  readonly error?: Error;
  /** hasMore reports whether there is a further page. */
  readonly hasMore: boolean;
}

/** settling is the time from a change until the list is read, in milliseconds: the server lists it a moment later. */
const settling = 1000;

/** SessionList is the list of sessions while somebody watches it, newest first: read again when it has changed, and now and then. */
export class SessionList {
  #state: SessionListState = { sessions: [], loading: true, hasMore: false };
  readonly #watchers = new Set<() => void>();
  readonly #choice: ListOptions;
  readonly #everyMs: number;
  #pages = 1;
  /** #got is how many pages the list has. */
  #got = 0;
  #reading: AbortController | undefined;
  /** #stale: it has to be read once more. */
  #stale = false;
  #end = () => {};

  constructor(readonly client: Client, options: SessionListOptions = {}) {
    const { everyMs = 5000, ...choice } = options;
    this.#choice = choice;
    this.#everyMs = everyMs;
  }

  readonly state = (): SessionListState => this.#state;

  /** watch calls back when the state has changed, and returns what ends that. */
  readonly watch = (changed: () => void): (() => void) => {
    const watcher = () => changed();
    this.#watchers.add(watcher);
    if (this.#watchers.size === 1) this.#begin();
    return () => {
      if (this.#watchers.delete(watcher) && this.#watchers.size === 0) this.#end();
    };
  };

  /** more reads a further page. */
  readonly more = (): void => {
    if (!this.#state.hasMore) return;
    this.#pages = this.#got + 1;
    this.reload();
  };

  /** reload reads the list again. */
  readonly reload = (): void => {
    this.#stale = true;
    if (!this.#reading) void this.#read();
  };

  #begin(): void {
    let soon: ReturnType<typeof setTimeout> | undefined;
    const forget = this.client.onListChange(() => {
      soon ??= setTimeout(() => { soon = undefined; this.reload(); }, settling);
    });
    const often = this.#everyMs ? setInterval(() => { if (isSeen()) this.reload(); }, this.#everyMs) : undefined;
    this.#end = () => {
      forget();
      clearTimeout(soon);
      clearInterval(often);
      this.#reading?.abort();
      this.#reading = undefined;
    };
    this.reload();
  }

  /** #read reads all pages, one time after the other. */
  async #read(): Promise<void> {
    const reading = (this.#reading = new AbortController());
    while (this.#stale && !reading.signal.aborted) {
      this.#stale = false;
      try {
        const sessions: Summary[] = [];
        let page: string | undefined;
        let pages = 0;
        for (; pages < this.#pages && (pages === 0 || page); pages++) {
          const p = await this.client.list({ ...this.#choice, page }, reading.signal);
          sessions.push(...p.sessions);
          page = p.next;
        }
        this.#got = pages;
        this.#set({ sessions, loading: false, hasMore: !!page });
      } catch (error) {
        if (!reading.signal.aborted) this.#set({ ...this.#state, loading: false, error: error as Error });
      }
    }
    if (this.#reading === reading) this.#reading = undefined;
  }

  #set(state: SessionListState): void {
    this.#state = state;
    for (const watcher of [...this.#watchers]) call(watcher);
  }
}

/** isSeen reports whether somebody can see the page; where there are no pages, somebody does. */
function isSeen(): boolean {
  return typeof document === 'undefined' || document.visibilityState !== 'hidden';
}
