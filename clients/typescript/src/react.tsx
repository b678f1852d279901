import { createContext, createElement, useContext, useEffect, useMemo, useRef, useSyncExternalStore, type ReactElement, type ReactNode } from 'react';

import type { Client, WorkspaceFile } from './client.js';
import { SessionList, type SessionListOptions, type SessionListState } from './list.js';
import type { LiveSession, LiveState, LogLine } from './live.js';
import { conversation } from './reduce.js';
import type {
  Block, Configure, Inspection, InterruptReply, InterruptRequest, Message, PermissionRequested, Receipt, RespondRequest,
  SessionEvent, Subagent,
} from './types.js';

const ClientContext = createContext<Client | undefined>(undefined);

/** SojournProvider has the client of the hooks below it. */
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
  const actions = useMemo(() => {
    // Not all that is done makes an event: a queued message does not.
    const done = async <T,>(act: Promise<T>) => {
      const result = await act;
      live.refresh();
      return result;
    };
    return {
      send: (message: Message | string) => done(client.send(id, message)),
      interrupt: (request?: InterruptRequest) => done(client.interrupt(id, request)),
      respond: (answer: RespondRequest) => done(client.respond(id, answer)),
      configure: (change: Configure) => done(client.configure(id, change)),
      close: () => client.close(id),
      open: () => client.open(id),
    };
  }, [client, id, live]);
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
  return usePart(live, live.watch, (s) => conversation(s.conversation, of));
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

/** SessionListView is a list of sessions that is kept up to date. */
export interface SessionListView extends SessionListState {
  /** more reads a further page, if there is one. */
  more(): void;
  reload(): void;
}

/** useSessions returns the list of sessions, newest first. */
export function useSessions(options: SessionListOptions = {}): SessionListView {
  const client = useClient();
  const { limit, query, children, everyMs } = options;
  const list = useMemo(() => new SessionList(client, { limit, query, children, everyMs }), [client, limit, query, children, everyMs]);
  const state = useSyncExternalStore(list.watch, list.state, list.state);
  return { ...state, more: list.more, reload: list.reload };
}
