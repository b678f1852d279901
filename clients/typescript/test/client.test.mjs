import assert from 'node:assert/strict';
import { test } from 'node:test';

import { GatewayError, SessionList } from '../lib/index.js';
import { Gateway, turns, until } from './fakes.mjs';

/** joined joins a room and returns the numbers of what comes. */
function joined(gateway, id, after, more = {}) {
  const seqs = [];
  seqs.leave = gateway.client.rooms.join(id, after, { onEvent: (e) => seqs.push(e.context.seq), ...more });
  return seqs;
}

const to = (n, from = 1) => Array.from({ length: n - from + 1 }, (_, i) => from + i);

test('who joins further back misses no event, and none comes twice', async () => {
  const g = new Gateway();
  g.session('s');
  for (const n of to(100)) g.say('s', n);
  const first = joined(g, 's', 100);
  await turns();
  g.say('s', 101); // on its way while the other joins
  const second = joined(g, 's', 10);
  g.say('s', 102);
  await turns();
  assert.deepEqual([...first], [101, 102]);
  assert.deepEqual([...second], to(102, 11));
  first.leave();
  second.leave();
  assert.equal(g.sockets.length, 0, 'the connection ends with the last room');
});

test('a lost connection is made again, and each room continues where it was', async () => {
  const g = new Gateway();
  g.session('s');
  const connected = [];
  const all = joined(g, 's', 0, { onConnected: (is) => connected.push(is) });
  g.say('s', 1);
  await until('the first', () => all.length === 1);
  g.sockets[0].close();
  g.say('s', 2);
  await until('the second', () => all.length === 2);
  assert.deepEqual([...all], [1, 2]);
  assert.deepEqual(connected, [false, true, false, true]);
  all.leave();
});

test('a listener that throws harms no other', async () => {
  const thrown = [];
  const before = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException');
  process.on('uncaughtException', (e) => thrown.push(e.message));
  const g = new Gateway();
  g.session('s');
  const broken = joined(g, 's', 0, { onConnected: () => { throw new Error('connected'); }, onEvent: () => { throw new Error('event'); } });
  const well = joined(g, 's', 0);
  g.say('s', 1);
  g.say('s', 2);
  await until('both', () => well.length === 2);
  await turns();
  process.removeAllListeners('uncaughtException');
  for (const listener of before) process.on('uncaughtException', listener);
  assert.ok(thrown.includes('event') && thrown.includes('connected'), 'it is not silent: ' + thrown);
  broken.leave();
  well.leave();
});

test('events end with the session, with an error, with an abort and with their reader', { timeout: 20_000 }, async () => {
  const g = new Gateway();
  g.session('s');
  for (const n of to(2500)) g.say('s', n);
  const seqs = [];
  for await (const e of g.client.events('s')) {
    seqs.push(e.context.seq);
    if (e.context.seq % 700 === 0) await turns(); // a slow reader, whose room is left meanwhile
    if (e.context.seq === 2500) g.end('s');
  }
  assert.deepEqual(seqs, to(2501));

  g.session('quiet');
  const waiting = g.client.events('quiet');
  const next = waiting.next();
  await turns();
  await waiting.return();
  assert.equal((await next).done, true);

  const abort = new AbortController();
  const aborted = g.client.events('quiet', 0, abort.signal).next();
  await turns();
  abort.abort(new Error('enough'));
  await assert.rejects(aborted, /enough/);
  assert.equal(g.sockets.length, 0);

  g.refuse = true;
  await assert.rejects(g.client.events('quiet').next(), /insecure/, 'a connection that can not be made is said');
});

test('a message whose answer is lost is sent again with its id, and other requests are not', async () => {
  const g = new Gateway();
  g.session('s');
  const ids = [];
  g.before = async (method, path, body) => {
    if (body) ids.push(JSON.parse(body).id);
    if (g.requests.length === 1) throw new TypeError('fetch failed');
  };
  const receipt = await g.client.send('s', 'hello');
  assert.equal(ids.length, 2);
  assert.equal(ids[0], ids[1]);
  assert.equal(receipt.messageId, ids[0]);
  g.requests.length = 0;
  await assert.rejects(g.client.interrupt('s'), /fetch failed/);
  assert.equal(g.requests.length, 1);
  g.requests.length = 0;
  g.before = async () => {};
  g.sessions.get('s').fails = () => new Response('{"error": {"code": "no_worker", "message": "no worker"}}', { status: 503 });
  await assert.rejects(g.client.send('s', 'hello'), (e) => e instanceof GatewayError && e.code === 'no_worker');
  assert.equal(g.requests.length, 1, 'a gateway that has answered is not asked again');
});

test('a live session has what its stream has, and its state, closed, opened again and deleted', { timeout: 60_000 }, async () => {
  const g = new Gateway();
  const s = g.session('s', { status: 'running' });
  g.say('s', 1);
  const live = g.client.live('s');
  const end = live.watch(() => {});
  const texts = () => live.state().conversation.blocks.map((b) => b.content);
  await until('it', () => !live.state().loading);
  g.say('s', 2);
  await until('the second', () => texts().length === 2);

  s.status = 'idle'; // its workflow learns of the end after the stream
  await until('the state', () => live.state().inspection.status === 'idle');
  s.status = undefined; // no worker
  g.emit('s', 'query:started');
  await turns();
  s.status = 'waiting';
  await until('the state again', () => live.state().inspection.status === 'waiting');

  g.emit('s', 'permission:requested', { requestId: 'r1', toolName: 'bash' });
  await until('the request', () => live.state().permissions.length === 1);
  g.emit('s', 'permission:resolved', { requestId: 'r1', decision: 'allow' });
  await until('its answer', () => live.state().permissions.length === 0);

  g.end('s');
  await until('the end', () => live.state().closed && live.state().session.from === 'archive');
  assert.equal(live.state().inspection, undefined);
  s.open = true;
  g.emit('s', 'session:initialized', { agent: 'claude', reopened: true });
  g.change('s', 'created');
  g.say('s', 3);
  await until('it is open again', () => !live.state().closed && texts().length === 3);
  assert.deepEqual(texts(), [1, 2, 3]);

  g.end('s');
  g.sessions.delete('s');
  await until('it is gone', () => live.state().error?.code === 'not_found');
  assert.equal(live.state().closed, true);
  end();
  await until('the end of the connection', () => g.sockets.length === 0);
  assert.equal(live.state().loading, true, 'it is forgotten');
});

test('a session that is opened again while it is read is not taken for closed', async () => {
  const g = new Gateway();
  const s = g.session('s', { open: false });
  const live = g.client.live('s');
  const answered = [];
  g.before = async (method, path) => {
    if (path !== '/sessions/s' || answered.length) return;
    answered.push(path);
    await turns(); // the answer says closed
    setImmediate(() => { s.open = true; });
  };
  const end = live.watch(() => {});
  await until('the first question', () => answered.length === 1);
  await until('it is opened', () => s.open);
  g.change('s', 'created');
  await until('it is open', () => !live.state().loading && !live.state().closed);
  end();
});

test('files are the archive with what has changed since', async () => {
  const g = new Gateway();
  const s = g.session('s', { files: [{ path: 'old', mode: 0o755, size: 1 }, { path: 'gone', mode: 0o644, size: 2 }] });
  const live = g.client.live('s');
  const end = live.watchFiles(() => {});
  const paths = () => live.state().files?.map((f) => `${f.path} ${f.size}`);
  await until('the archive', () => paths()?.length === 2);
  g.emit('s', 'file:modified', { path: 'old', size: 9 });
  g.emit('s', 'file:created', { path: 'new', size: 3 });
  g.emit('s', 'file:deleted', { path: 'gone' });
  await until('the changes', () => paths().join() === 'new 3,old 9');
  assert.equal(live.state().files[1].mode, 0o755);
  s.files = [{ path: 'old', mode: 0o755, size: 9 }, { path: 'quiet', mode: 0o644, size: 4 }];
  let failures = 1;
  g.before = async (method, path) => { if (path.endsWith('/files') && failures-- > 0) s.fails = () => new Response('{"error": {"code": "archive_busy", "message": "busy"}}', { status: 503 }); else s.fails = undefined; };
  g.emit('s', 'transcript:changed', { id: 'main', offset: 1 });
  await until('a fault', () => live.state().filesError);
  await until('the archive again', () => paths().includes('quiet 4') && !live.state().filesError);
  end();
});

test('a list is read when it has changed, once at a time', async () => {
  const g = new Gateway();
  g.session('a');
  const list = new SessionList(g.client, { everyMs: 20 });
  let running = 0;
  g.before = async () => { assert.equal(++running, 1); await turns(); running--; };
  let end = list.watch(() => {});
  end(); // as React does when it mounts twice
  await turns();
  running = 0;
  end = list.watch(() => {});
  await until('the list', () => list.state().sessions.length === 1);
  g.session('b');
  await until('the next', () => list.state().sessions.length === 2);
  end();
});

test('an end that belongs to an earlier stay in a room ends no later one', async () => {
  const g = new Gateway();
  g.session('s');
  for (const n of to(100)) g.say('s', n);
  const first = joined(g, 's', 100);
  await turns();
  g.end('s'); // it is on its way while the other joins
  const seqs = [];
  for await (const e of g.client.events('s', 10)) seqs.push(e.context.seq);
  assert.deepEqual(seqs, to(101, 11));
  assert.deepEqual([...first], [101]);
});

test('events past retention concern only who asks for them', async () => {
  const g = new Gateway();
  g.session('s', { purged: 50 });
  for (const n of to(100)) g.say('s', n);
  const well = joined(g, 's', 100, { onEnd: (e) => assert.fail(e) });
  await turns();
  await assert.rejects(g.client.events('s').next(), (e) => e.code === 'purged');
  g.say('s', 101);
  await until('the next', () => well.length === 1);
  well.leave();
});

test('a connection that does not last is not hammered, and the session is read all the same', async () => {
  const g = new Gateway();
  g.session('s');
  g.drops = true;
  g.before = () => turns(200);
  const live = g.client.live('s');
  const end = live.watch(() => {});
  await until('the session', () => !live.state().loading);
  assert.equal(g.count('GET', '/sessions/s') <= 2, true);
  end();
});

test('a gateway that takes no request of a client ends its rooms', { timeout: 30_000 }, async () => {
  const g = new Gateway();
  g.session('s');
  g.drops = true;
  g.before = async () => { throw new GatewayError('no valid token', 'unauthorized', 401); };
  await assert.rejects(g.client.events('s').next(), (e) => e.code === 'unauthorized');
});

test('a session that comes later is shown then, and a passing fault loses nothing', async () => {
  const g = new Gateway();
  const live = g.client.live('s');
  const events = [];
  const deaf = live.listen((e) => events.push(e.context.seq));
  const end = live.watch(() => {});
  await until('it is not there', () => live.state().error?.code === 'not_found');
  await until('the lists', () => g.sockets[0]?.rooms.has('*'));
  g.session('s');
  g.change('s', 'created');
  await until('it is there', () => !live.state().error && live.state().connected);
  g.say('s', 1);
  await until('the first', () => events.length === 1);
  g.fail('s', 'unavailable');
  g.say('s', 2);
  await until('the fault', () => live.state().error);
  await until('the second', () => events.length === 2 && !live.state().error);
  assert.deepEqual(events, [1, 2]);
  assert.equal(live.state().conversation.blocks.length, 2);
  end();
  deaf();
});

test('without a worker there is no state, and a queued end leaves the requests of the running turn', async () => {
  const g = new Gateway();
  const s = g.session('s', { status: 'running' });
  const live = g.client.live('s');
  const end = live.watch(() => {});
  await until('it', () => live.state().connected && live.state().inspection);
  s.status = undefined;
  g.emit('s', 'permission:requested', { requestId: 'r1' });
  await until('no state', () => !live.state().inspection);
  g.emit('s', 'query:interrupted', { executionId: 'x9', queued: true });
  await turns();
  assert.equal(live.state().permissions.length, 1);
  g.emit('s', 'query:interrupted', { executionId: 'x1' });
  await until('none', () => live.state().permissions.length === 0);
  end();
});
