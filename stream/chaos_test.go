package stream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/test/teststack"
)

// cutter is a TCP proxy before the server that loses answers: while it cuts,
// connections die after a random number of bytes, in either direction.
type cutter struct {
	t        testing.TB
	listener net.Listener
	user     *url.Userinfo
	target   string
	cutting  atomic.Bool
	cuts     atomic.Int64
	wg       sync.WaitGroup
	mu       sync.Mutex
	conns    map[net.Conn]bool
}

func newCutter(t testing.TB, target string) *cutter {
	u, err := url.Parse(target)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cutter{t: t, listener: l, target: u.Host, user: u.User, conns: map[net.Conn]bool{}}
	c.wg.Go(c.serve)
	t.Cleanup(func() {
		_ = l.Close()
		c.cut()
		c.wg.Wait()
	})
	return c
}

func (c *cutter) url() string {
	u := url.URL{Scheme: "nats", User: c.user, Host: c.listener.Addr().String()}
	return u.String()
}

func (c *cutter) serve() {
	for {
		in, err := c.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", c.target)
		if err != nil {
			_ = in.Close()
			continue
		}
		c.keep(in, out)
		c.wg.Go(func() { c.pipe(in, out) })
		c.wg.Go(func() { c.pipe(out, in) })
	}
}

func (c *cutter) keep(conns ...net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range conns {
		c.conns[conn] = true
	}
}

// cut ends all connections now.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		_ = conn.Close()
	}
	clear(c.conns)
}

func (c *cutter) pipe(dst, src net.Conn) {
	defer dst.Close()
	defer src.Close()
	buf := make([]byte, 4096)
	left := 3000 + rand.IntN(20_000)
	for {
		n, err := src.Read(buf)
		if c.cutting.Load() {
			left -= n
		}
		if left < 0 {
			c.cuts.Add(1)
		}
		if err != nil || left < 0 {
			return
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			return
		}
	}
}

// world is what the writers of a chaos test know.
type world struct {
	mu sync.Mutex
	// accepted are texts whose append was answered, by number.
	accepted map[string]uint64
	// tried are all texts that were ever passed to an append.
	tried map[string]Fence
}

func (w *world) try(text string, f Fence) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tried[text] = f
}

func (w *world) accept(text string, seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accepted[text] = seq
}

// check verifies the log as a reader sees it: dense numbers, no repeats, nothing
// accepted lost, nothing of a lower fence behind a higher one, every number as
// returned.
func (w *world) check(t *testing.T, log *Log, id string) {
	var high Fence
	seen := map[string]uint64{}
	next := uint64(1)
	for e, err := range log.Read(t.Context(), id, 0, ReadOptions{}) {
		require.NoError(t, err)
		require.Equal(t, next, e.Context.Seq)
		next++
		if s, ok := e.Payload.(event.Status); ok {
			f := Fence{s.Epoch, s.Attempt}
			require.LessOrEqual(t, high.Compare(f), 0, "fence %v behind %v", f, high)
			high = f
			continue
		}
		f, tried := w.tried[text(e)]
		require.True(t, tried, "nobody wrote %q", text(e))
		require.NoError(t, allowed(high, f), "%q is behind fence %v", text(e), high)
		require.Zero(t, seen[text(e)], "%q twice", text(e))
		seen[text(e)] = e.Context.Seq
	}
	require.NotEmpty(t, w.accepted)
	for text, seq := range w.accepted {
		require.Equal(t, seq, seen[text], "%q was accepted", text)
	}
}

// attempt is the life of one writer: a fence, then appends until it is fenced,
// killed in the middle, or done.
func (w *world) attempt(ctx context.Context, t *testing.T, log *Log, id string, f Fence, appends int) {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	if rand.IntN(3) == 0 {
		killer := time.AfterFunc(time.Duration(rand.IntN(300))*time.Millisecond, kill)
		defer killer.Stop()
	}
	writer, err := log.Writer(ctx, id, f, WriterOptions{})
	for i := 0; err == nil && i < appends; i++ {
		name := fmt.Sprintf("%v/%s/%d", f, log.batchID(), i)
		w.try(name, f)
		events := say(name)
		if rand.IntN(8) == 0 {
			// Long enough to be split into parts.
			events[0].Payload = event.BlockDelta{BlockID: strings.Repeat("b", 3000), Delta: name}
		}
		_, err = writer.Append(ctx, events, Position{f.Epoch, int64(i), 0})
		if err == nil {
			w.accept(name, writer.Tail().LastSeq)
		}
	}
	if err != nil && !errors.Is(err, ErrFenced) && ctx.Err() == nil {
		t.Errorf("fence %v: %v", f, err)
	}
}

func (w *world) emit(ctx context.Context, t *testing.T, log *Log, id string, epoch uint64, key string) {
	f := Fence{Epoch: epoch}
	w.try(key, f)
	// As a retried activity would.
	for range 3 {
		_, err := log.Emit(ctx, id, Emission{Fence: f, Key: key, Events: say(key)})
		if errors.Is(err, ErrFenced) {
			return
		}
		if err != nil && ctx.Err() == nil {
			t.Errorf("emit %s: %v", key, err)
		}
	}
}

func newWorld() *world { return &world{accepted: map[string]uint64{}, tried: map[string]Fence{}} }

// Many writers with random fences at once, some killed in the middle of an
// append, while connections die under all of them.
func TestChaos(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.MaxBatch = 1000 })
	for round := range 3 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			chaos(t, b, fmt.Sprintf("s%d", round), newCutter(t, b.url))
		})
	}
}

func chaos(t *testing.T, b *bundle, id string, proxy *cutter) {
	w := newWorld()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cut := b.opts
	cut.Timeout = 200 * time.Millisecond
	var logs []*Log
	for range 4 {
		log, err := Dial(ctx, proxy.url(), cut)
		require.NoError(t, err)
		t.Cleanup(log.Close)
		logs = append(logs, log)
	}
	events := follower(t, logs[3], id, 0)
	const enough = 5
	proxy.cutting.Store(true)
	var wg sync.WaitGroup
	for i, log := range logs[:3] {
		wg.Go(func() {
			// Rounds differ in how much is written before a fence ends it: on until enough was cut.
			for epoch := uint64(1); ctx.Err() == nil && (epoch <= 3 || proxy.cuts.Load() <= enough); epoch++ {
				for range 3 {
					w.attempt(ctx, t, log, id, Fence{epoch, 1 + rand.IntN(8)}, 30)
				}
				w.emit(ctx, t, log, id, epoch, fmt.Sprintf("emission %d of %d", epoch, i))
			}
		})
	}
	wg.Wait()
	proxy.cutting.Store(false)
	proxy.cut()
	require.NoError(t, ctx.Err(), "chaos took too long")
	w.attempt(ctx, t, b.Log, id, Fence{math.MaxInt32, 1}, 1)
	w.check(t, b.Log, id)
	t.Logf("%d cuts, %d of %d appends answered", proxy.cuts.Load(), len(w.accepted), len(w.tried))
	tail, err := b.Tail(ctx, id)
	require.NoError(t, err)
	for want := uint64(1); want <= tail.LastSeq; want++ {
		select {
		case e := <-events:
			require.Equal(t, want, e.Context.Seq, "the follower saw the same through all cuts")
		case <-ctx.Done():
			t.Fatalf("the follower stopped at event %d of %d", want-1, tail.LastSeq)
		}
	}
}

// The answer is lost after the server stored the batch: the next try finds its
// own message.
func TestLostAnswerIsNoDouble(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	w := b.writer(t, "s1", 1, 1)
	m := message{first: 2, last: 2, fence: w.fence, batch: "mine", part: 1, parts: 1}
	data, err := encodeBatch("s1", 2, []item{{events: say("a")}}, 1000)
	require.NoError(t, err)
	m.data = data.data
	subject := b.subject("s1")
	first, err := b.put(t.Context(), subject, w.c.at, m)
	require.NoError(t, err)
	again, err := b.put(t.Context(), subject, w.c.at, m)
	require.NoError(t, err)
	require.Equal(t, first, again)

	_, err = b.Emit(t.Context(), "s1", Emission{Fence: Fence{Epoch: 1}, Key: "k", Events: say("b")})
	require.NoError(t, err)
	again, err = b.put(t.Context(), subject, w.c.at, m)
	require.NoError(t, err)
	require.Equal(t, first, again, "also behind another writer's message")

	m.batch = "other"
	_, err = b.put(t.Context(), subject, w.c.at, m)
	require.ErrorIs(t, err, errConflict)
	require.Equal(t, []string{"status", "a", "b"}, read(t, b.Log, "s1", 0))
}

// The server is killed and restarted in the middle: the writer waits, the
// follower continues, nothing is lost and nothing is repeated.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	bin, dir := teststack.Program(t), t.TempDir()
	server, err := teststack.Start(bin, dir, "")
	require.NoError(t, err)
	defer func() { server.Stop(os.Kill) }()
	o := uniqueOptions(t)
	log, err := Dial(t.Context(), urlOf(server), o)
	require.NoError(t, err)
	t.Cleanup(log.Close)
	b := &bundle{Log: log, url: urlOf(server)}
	events := follower(t, log, "s1", 0)
	batcher := b.writer(t, "s1", 1, 1).Batcher(t.Context(), BatcherOptions{})
	u, err := url.Parse(urlOf(server))
	require.NoError(t, err)
	for i := range 300 {
		require.NoError(t, batcher.Add(t.Context(), say(fmt.Sprint(i)), Position{1, int64(i), 0}))
		if i == 150 {
			server.Stop(os.Kill)
			server, err = teststack.Start(bin, dir, u.Port())
			require.NoError(t, err)
		}
	}
	require.NoError(t, batcher.Flush(t.Context()))
	require.NoError(t, batcher.Close())
	require.Equal(t, "status", text(<-events))
	for i := range 300 {
		require.Equal(t, fmt.Sprint(i), text(<-events))
	}
	require.Len(t, read(t, log, "s1", 0), 301)
}
