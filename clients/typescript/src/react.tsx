import { createContext, createElement, useCallback, useContext, useEffect, useMemo, useRef, useState, useSyncExternalStore, type ReactElement, type ReactNode } from 'react';

import type { Client, ListOptions, WorkspaceFile } from './client.js';
import type { LiveSession, LiveState, LogLine } from './live.js';
import { conversation } from './reduce.js';
import type {
  Block, Configure, Inspection, InterruptReply, InterruptRequest, Message, PermissionRequested, Receipt, RespondRequest,
  SessionEvent, Subagent, Summary,
} from './types.js';

const ClientContext = createContext<Client | undefined>(undefined);

/** SojournProvider gives the hooks below it their client. */
export function SojournProvider(props: { client: Client; children?: ReactNode }): ReactElement {
  return createElement(ClientContext.Provider, { value: props.client }, props.children);
}

/** useClient returns the client of the provider. */
export function useClient(): Client {
  const client = useContext(ClientContext);
  if (!client) throw new Error('there is no <SojournProvider client={…}> around this component');
  return client;
}

function useLive(id: string): LiveSession {
  const client = useClient();
  return useMemo(() => client.live(id), [client, id]);
}

/** usePart renders again when one part of a session's state has changed. */
function usePart<T>(live: LiveSession, watch: LiveSession['watch'], part: (state: LiveState) => T): T {
  const read = () => part(live.state());
  return useSyncExternalStore(watch, read, read);
}

/** SessionView is a session, and what can be done with it. */
export interface SessionView {
  id: string;
  /** loading, error, connected, closed and permissions are as in LiveState. */
  loading: boolean;
  error: Error | undefined;
  connected: boolean;
  closed: boolean;
  agent: string | undefined;
  title: string | undefined;
  /** status is idle, running, waiting (for a person), paused (by a limit) or closed; undefined while no worker says. */
  status: Inspection['status'] | undefined;
  inspection: Inspection | undefined;
  permissions: readonly PermissionRequested[];
  send(message: Message | string): Promise<Receipt>;
  interrupt(request?: InterruptRequest): Promise<InterruptReply>;
  respond(answer: RespondRequest): Promise<void>;
  configure(change: Configure): Promise<void>;
  close(): Promise<void>;
  /** open opens the session again after it was closed. */
  open(): Promise<void>;
}

/** useSession returns a session's state, live. */
export function useSession(id: string): SessionView {
  const client = useClient();
  const live = useLive(id);
  const loading = usePart(live, live.watch, (s) => s.loading);
  const error = usePart(live, live.watch, (s) => s.error);
  const connected = usePart(live, live.watch, (s) => s.connected);
  const closed = usePart(live, live.watch, (s) => s.closed);
  const session = usePart(live, live.watch, (s) => s.session);
  const inspection = usePart(live, live.watch, (s) => s.inspection);
  const permissions = usePart(live, live.watch, (s) => s.permissions);
  const actions = useMemo(() => ({
    send: (message: Message | string) => client.send(id, message),
    interrupt: (request?: InterruptRequest) => client.interrupt(id, request),
    respond: (answer: RespondRequest) => client.respond(id, answer),
    configure: (change: Configure) => client.configure(id, change),
    close: () => client.close(id),
    open: () => client.open(id).then(() => live.reload()),
  }), [client, id, live]);
  return {
    id, loading, error, connected, closed, inspection, permissions,
    agent: session?.agent, title: inspection?.title ?? session?.title,
    status: closed ? 'closed' : inspection?.status,
    ...actions,
  };
}

/** useMessages returns the blocks of a conversation: the session's own, or a subagent's by its toolUseId. */
export function useMessages(id: string, of = 'main'): Block[] {
  const live = useLive(id);
  const state = usePart(live, live.watch, (s) => s.conversation);
  return useMemo(() => conversation(state, of), [state, of]);
}

/** useSubagents returns the threads of a session's subagents, in the order in which they began. */
export function useSubagents(id: string): Subagent[] {
  const live = useLive(id);
  return usePart(live, live.watch, (s) => s.conversation.subagents);
}

/** useFiles returns a session's workspace as it was archived, with what has changed since. */
export function useFiles(id: string): { files: readonly WorkspaceFile[]; loading: boolean; error: Error | undefined } {
  const live = useLive(id);
  const files = usePart(live, live.watchFiles, (s) => s.files);
  const error = usePart(live, live.watch, (s) => s.filesError);
  return { files: files ?? none, loading: !files && !error, error };
}

const none: readonly never[] = [];

/** useLogs returns the lines for operators since the session is followed here. */
export function useLogs(id: string): readonly LogLine[] {
  const live = useLive(id);
  return usePart(live, live.watch, (s) => s.logs);
}

/** useEvents calls back with each event of a session from now on. */
export function useEvents(id: string, onEvent: (event: SessionEvent) => void): void {
  const live = useLive(id);
  const latest = useRef(onEvent);
  useEffect(() => { latest.current = onEvent; });
  useEffect(() => {
    const deaf = live.listen((event) => latest.current(event));
    const leave = live.watch(() => {});
    return () => { deaf(); leave(); };
  }, [live]);
}

/** SessionList is a list of sessions that is kept up to date. */
export interface SessionList {
  sessions: readonly Summary[];
  loading: boolean;
  error: Error | undefined;
  /** more reads a further page; undefined behind the last one. */
  more: (() => void) | undefined;
  reload(): void;
}

/** listPause bounds how often a list is read again, in milliseconds: the server lists a change a moment after it. */
const listPause = 1000;

/** SessionListOptions choose sessions. */
export interface SessionListOptions extends Omit<ListOptions, 'page'> {
  /** everyMs is how often the statuses and figures in the list are read again, in milliseconds, while the page is seen. Default: 5000; 0 is never. */
  everyMs?: number;
}

/** useSessions returns the list of sessions, newest first: read again at once when one is created, renamed, closed or deleted. */
export function useSessions(options: SessionListOptions = {}): SessionList {
  const client = useClient();
  const [pages, setPages] = useState(1);
  const [list, setList] = useState<{ sessions: readonly Summary[]; next?: string | undefined }>();
  const [error, setError] = useState<Error>();
  const [reading, setReading] = useState(0);
  const reload = useCallback(() => setReading((n) => n + 1), []);
  const { limit, query, children, everyMs = 5000 } = options;

  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const end = client.onListChange(() => {
      timer ??= setTimeout(() => { timer = undefined; reload(); }, listPause);
    });
    return () => { end(); clearTimeout(timer); };
  }, [client, reload]);

  useEffect(() => {
    if (!everyMs) return;
    const timer = setInterval(() => { if (document.visibilityState === 'visible') reload(); }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs, reload]);

  useEffect(() => {
    const ended = new AbortController();
    const read = async () => {
      const sessions: Summary[] = [];
      let page: string | undefined;
      for (let n = 0; n < pages && (n === 0 || page); n++) {
        const p = await client.list({ limit, query, children, page }, ended.signal);
        sessions.push(...p.sessions);
        page = p.next;
      }
      return { sessions, next: page };
    };
    read().then(
      (all) => { if (!ended.signal.aborted) { setList(all); setError(undefined); } },
      (e: Error) => { if (!ended.signal.aborted) setError(e); },
    );
    return () => ended.abort();
  }, [client, limit, query, children, pages, reading]);

  return {
    sessions: list?.sessions ?? none, loading: !list && !error, error, reload,
    more: list?.next ? () => setPages((n) => n + 1) : undefined,
  };
}
