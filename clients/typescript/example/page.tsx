// A page over a gateway: the sessions on the left, one of them in the middle, and what it has besides
// its conversation on the right. Its address has the gateway and the token behind a #, which browsers
// keep to themselves: index.html#url=http://127.0.0.1:7244&token=…
import { useState, type FormEvent } from 'react';
import { createRoot } from 'react-dom/client';

import { Client, type Block } from '@sojourn-run/client';
import { SojournProvider, useClient, useEvents, useFiles, useLogs, useMessages, useSession, useSessions, useSubagents } from '@sojourn-run/client/react';

function Page() {
  const [open, setOpen] = useState<string>();
  return (
    <main>
      <Sessions open={open} onOpen={setOpen} />
      {open ? <Session key={open} id={open} /> : <p className="blocks soft">Choose a session, or begin one.</p>}
      {open ? <Details key={open + " details"} id={open} /> : <aside className="right" />}
    </main>
  );
}

const agents = ['claude', 'codex', 'gemini', 'opencode'];

function Sessions({ open, onOpen }: { open: string | undefined; onOpen(id: string): void }) {
  const client = useClient();
  const { sessions, loading, error, hasMore, more } = useSessions();
  const [agent, setAgent] = useState(agents[0]!);
  const [fault, setFault] = useState<Error>();
  return (
    <aside>
      <h1>Sojourn</h1>
      <div className="new">
        <select aria-label="agent" value={agent} onChange={(e) => setAgent(e.target.value)}>
          {agents.map((name) => <option key={name}>{name}</option>)}
        </select>
        <button className="first" onClick={() => client.create({ agent, permission: 'ask' }).then(onOpen, setFault)}>New session</button>
      </div>
      {loading && <p className="soft">…</p>}
      <Fault error={error ?? fault} />
      <ul className="sessions">
        {sessions.map((s) => (
          <li key={s.sessionId} aria-current={s.sessionId === open} onClick={() => onOpen(s.sessionId)}>
            {s.title || 'Without a message yet'}<br /><small>{s.agent} · {s.status} · {s.turns} turns</small>
          </li>
        ))}
      </ul>
      {hasMore && <button onClick={more}>More</button>}
    </aside>
  );
}

function Session({ id }: { id: string }) {
  const s = useSession(id);
  const blocks = useMessages(id);
  const [fault, setFault] = useState<Error>();
  const tried = (what: Promise<unknown>) => void what.then(() => setFault(undefined), setFault);
  return (
    <section className="session">
      <header>
        <h1>{s.title || 'A new session'}</h1>
        <span className="soft">{s.agent}</span>
        <span className="status" data-status={s.status}>{s.status ?? (s.loading ? '…' : 'unknown')}</span>
        {s.status === 'running' && <button onClick={() => tried(s.interrupt({ reason: 'stopped on the page' }))}>Stop</button>}
        {s.closed ? <button onClick={() => tried(s.open())}>Open again</button> : <button onClick={() => tried(s.close())}>Close</button>}
      </header>
      <div className="blocks">{blocks.map((b) => <BlockView key={b.id} block={b} />)}</div>
      {s.permissions.map((p) => (
        <div className="ask" key={p.requestId}>
          <code>{p.title || p.toolName} {JSON.stringify(p.input)}</code>
          <button className="first" onClick={() => tried(s.respond({ requestId: p.requestId, allow: true }))}>Allow</button>
          <button onClick={() => tried(s.respond({ requestId: p.requestId, allow: false }))}>Deny</button>
        </div>
      ))}
      <Fault error={s.error ?? fault} />
      {!s.closed && <Say onSay={(text) => tried(s.send(text))} queued={s.inspection?.queuedMessages.length ?? 0} />}
    </section>
  );
}

function Say({ onSay, queued }: { onSay(text: string): void; queued: number }) {
  const [text, setText] = useState('');
  const submit = (e: FormEvent) => {
    e.preventDefault();
    if (!text.trim()) return;
    onSay(text);
    setText('');
  };
  return (
    <form className="say" onSubmit={submit}>
      <input aria-label="message" value={text} onChange={(e) => setText(e.target.value)} placeholder={queued ? `${queued} waiting` : 'A message to the agent'} />
      <button className="first">Send</button>
    </form>
  );
}

function BlockView({ block: b }: { block: Block }) {
  const title = b.type === 'tool_use' ? `${b.toolName} ${JSON.stringify(b.input)}` : b.type === 'subagent' ? `${b.name || 'subagent'}: ${text(b.input)}` : '';
  const body = b.content ?? b.message ?? (b.output == null ? '' : text(b.output));
  return (
    <div className={`block ${b.type}`} data-pending={b.status === 'pending'}>
      {title && <b>{title}</b>}
      {body}
    </div>
  );
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function Details({ id }: { id: string }) {
  const { files, error } = useFiles(id);
  const subagents = useSubagents(id);
  const logs = useLogs(id);
  const [count, setCount] = useState(0);
  const [last, setLast] = useState('');
  useEvents(id, (e) => { setCount((n) => n + 1); setLast(e.type); });
  return (
    <aside className="right">
      <h2>Files</h2>
      <ul aria-label="files">{files.map((f) => <li key={text(f.path)}>{text(f.path)} <span className="soft">{f.size} bytes</span></li>)}</ul>
      <Fault error={error} />
      <h2>Subagents</h2>
      <ul aria-label="subagents">{subagents.map((s) => <li key={s.toolUseId}>{s.prompt || s.toolUseId} <span className="soft">{s.status}, {s.blocks.length} blocks</span></li>)}</ul>
      <h2>Log</h2>
      <ul aria-label="log">{logs.slice(-12).map((l, i) => <li key={l.seq ?? i}><span className="soft">{l.level}</span> {l.message}</li>)}</ul>
      <h2>Events</h2>
      <p aria-label="events">{count} since the page was opened{last && `, the last is ${last}`}</p>
    </aside>
  );
}

function Fault({ error }: { error: Error | undefined }) {
  return error ? <p className="fault" role="alert">{error.message}</p> : null;
}

const at = new URLSearchParams(location.hash.slice(1));
const client = new Client({ url: at.get('url') ?? 'http://127.0.0.1:7244', token: at.get('token') ?? '' });
createRoot(document.getElementById('page')!).render(<SojournProvider client={client}><Page /></SojournProvider>);
