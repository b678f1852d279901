package activities

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/adapters/claude"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/sandbox/local"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/test/skip"
)

// bench is one session on one host, with the real servers, sandbox and runner.
type bench struct {
	t     *testing.T
	log   *stream.Log
	store *archive.Archive
	dir   string
	// program is the agent's program.
	program  string
	provider sandbox.Provider
	slots    *host.Slots
	// temporal and lease are those of the next worker.
	temporal host.Temporal
	lease    time.Duration
	// profile loads the next worker's profiles; nil for none.
	profile func(context.Context, string) (adapters.Profile, error)
	host    *Host
	agent   contract.Agent
	sandbox session.Sandbox
	last    uint64
}

// newBench creates a host without a sandbox.
func newBench(t *testing.T) *bench {
	t.Helper()
	run, err := filepath.Abs(filepath.Join("..", "bin", "sojourn-runner"))
	require.NoError(t, err)
	if _, err := os.Stat(run); err != nil {
		skip.Without(t, "bin/sojourn-runner: make build makes it")
	}
	b := &bench{t: t, slots: host.NewSlots(4), temporal: acknowledging{}, agent: contract.Agent{
		SessionID: "s-" + strings.ToLower(rand.Text()[:12]), Name: "claude", Native: 1,
	}}
	b.log, b.store = fresh(t)
	// The control socket's path is short, and t.TempDir's is not.
	b.dir, err = os.MkdirTemp("", "sj")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(b.dir)) })
	self, err := os.Executable()
	require.NoError(t, err)
	b.program = filepath.Join(t.TempDir(), "claude")
	require.NoError(t, os.Symlink(self, b.program))
	b.provider, err = local.New(t.Context(), local.Options{DataDir: b.dir, Runner: run, UserHome: "-", UnsafeLocal: true})
	require.NoError(t, err)
	b.worker()
	t.Cleanup(func() {
		require.NoError(t, b.host.Close())
		b.endAll()
	})
	return b
}

// withSandbox returns a bench that has a sandbox.
func withSandbox(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.begin()
	b.create()
	return b
}

// worker starts a new worker on the host, as after the death of the previous one.
func (b *bench) worker() {
	if b.host != nil {
		require.NoError(b.t, b.host.Close())
	}
	b.host = NewHost(HostOptions{Stream: b.log, Archive: b.store, Options: host.Options{
		ID: "host-1", DataDir: b.dir, Secret: []byte("secret"), Temporal: b.temporal, Lease: b.lease,
		Provider: b.provider, Slots: b.slots, Agents: builtin.Registry(), Profile: b.profile,
		Getenv: func(name string) string {
			if name == claude.ProgramVariable {
				return b.program
			}
			return os.Getenv(name)
		},
		Log: quiet(),
	}})
}

func (b *bench) endAll() {
	infos, err := b.provider.List(context.Background())
	require.NoError(b.t, err)
	for _, info := range infos {
		sb, err := b.provider.Open(context.Background(), info.SandboxID)
		require.NoError(b.t, err)
		require.NoError(b.t, sb.Terminate(context.Background()))
	}
}

// as runs an activity as Temporal would, as the given attempt, until ctx ends.
func as[O any](ctx context.Context, attempt int, run, in any) (O, error) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(nothing{})
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{
		BackgroundActivityContext: ctx, Interceptors: []interceptor.WorkerInterceptor{&numbered{attempt: attempt}},
	})
	env.RegisterActivity(run)
	var out O
	value, err := env.ExecuteActivity(run, in)
	if err == nil {
		err = value.Get(&out)
	}
	return out, err
}

// acknowledging is a Temporal that acknowledges every heartbeat.
type acknowledging struct{ host.Temporal }

func (acknowledging) RecordActivityHeartbeat(ctx context.Context, _ []byte, details ...any) error {
	activity.RecordHeartbeat(ctx, details...)
	return nil
}

func (acknowledging) SignalWorkflow(context.Context, string, string, string, any) error { return nil }

type nothing struct{}

func (nothing) Debug(string, ...any) {}
func (nothing) Info(string, ...any)  {}
func (nothing) Warn(string, ...any)  {}
func (nothing) Error(string, ...any) {}

// numbered reports its attempt to an activity.
type numbered struct {
	interceptor.WorkerInterceptorBase
	attempt int
}

func (n *numbered) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &numberedIn{interceptor.ActivityInboundInterceptorBase{Next: next}, n.attempt}
}

type numberedIn struct {
	interceptor.ActivityInboundInterceptorBase
	attempt int
}

func (n *numberedIn) Init(out interceptor.ActivityOutboundInterceptor) error {
	return n.Next.Init(&numberedOut{interceptor.ActivityOutboundInterceptorBase{Next: out}, n.attempt})
}

type numberedOut struct {
	interceptor.ActivityOutboundInterceptorBase
	attempt int
}

func (n *numberedOut) GetInfo(ctx context.Context) activity.Info {
	info := n.Next.GetInfo(ctx)
	info.Attempt = int32(n.attempt)
	return info
}

func (b *bench) begin() {
	b.t.Helper()
	s := &Session{Stream: b.log, Archive: b.store}
	out, err := s.Begin(b.t.Context(), contract.BeginInput{Session: session.Input{SessionID: b.agent.SessionID, Options: session.Options{Agent: "claude"}}})
	require.NoError(b.t, err)
	b.last = out.LastSeq
}

func (b *bench) create() {
	b.t.Helper()
	out, err := as[contract.CreateSandboxOutput](b.t.Context(), 1, b.host.CreateSandbox, contract.CreateSandboxInput{Agent: b.agent, LastSeq: b.last})
	require.NoError(b.t, err)
	b.sandbox, b.last = out.Sandbox, out.LastSeq
}

// ask returns the input of a turn.
func (b *bench) ask(n int, text string) contract.RunTurnInput {
	id := string(rune('0' + n))
	return contract.RunTurnInput{
		Agent: b.agent, Sandbox: b.sandbox, ExecutionID: "x" + id, Turn: n, LastSeq: b.last,
		Message: session.Message{ID: "m" + id, Text: text},
	}
}

func (b *bench) attempt(ctx context.Context, n int, in contract.RunTurnInput) (contract.RunTurnOutput, error) {
	return as[contract.RunTurnOutput](ctx, n, b.host.RunTurn, in)
}

// turn runs a turn to its end.
func (b *bench) turn(in contract.RunTurnInput) contract.RunTurnOutput {
	b.t.Helper()
	out, err := b.attempt(b.t.Context(), 1, in)
	require.NoError(b.t, err)
	b.last = out.LastSeq
	return out
}

func (b *bench) end() {
	b.t.Helper()
	_, err := as[contract.EndSandboxOutput](b.t.Context(), 1, b.host.EndSandbox, contract.EndSandboxInput{Agent: b.agent, Sandbox: b.sandbox, Reason: "manual", LastSeq: b.last})
	require.NoError(b.t, err)
}

// ended is the result of a turn that runs concurrently.
type ended struct {
	out contract.RunTurnOutput
	err error
}

// aside runs an attempt concurrently with the test.
func (b *bench) aside(ctx context.Context, n int, in contract.RunTurnInput) <-chan ended {
	done := make(chan ended, 1)
	go func() {
		out, err := b.attempt(ctx, n, in)
		done <- ended{out, err}
	}()
	return done
}

// until reads the stream after a sequence number until is returns true for an event.
func (b *bench) until(after uint64, is func(event.Event) bool) event.Event {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	for ev, err := range b.log.Read(ctx, b.agent.SessionID, after, stream.ReadOptions{Follow: true}) {
		require.NoError(b.t, err)
		if is(ev) {
			return ev
		}
	}
	b.t.Fatal("the stream ended")
	return event.Event{}
}

func is[P event.Payload](ev event.Event) bool { _, ok := ev.Payload.(P); return ok }

// events returns the whole stream; a gap in it is an error.
func (b *bench) events() []event.Event {
	b.t.Helper()
	var all []event.Event
	for ev, err := range b.log.Read(b.t.Context(), b.agent.SessionID, 0, stream.ReadOptions{}) {
		require.NoError(b.t, err)
		all = append(all, ev)
	}
	return all
}

// heard returns every line that the agent read from stdin.
func (b *bench) heard() []string {
	b.t.Helper()
	data, err := os.ReadFile(b.file(stdinLog))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(b.t, err)
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// openGate lets an agent that waits at its gate continue.
func (b *bench) openGate() {
	b.t.Helper()
	require.NoError(b.t, os.WriteFile(b.file(gateFile), nil, 0o600))
}

// file returns a path in the agent's home.
func (b *bench) file(elem ...string) string {
	b.t.Helper()
	sb, err := b.provider.Open(b.t.Context(), b.sandbox.ID)
	require.NoError(b.t, err)
	info, err := sb.Info(b.t.Context())
	require.NoError(b.t, err)
	return filepath.Join(append([]string{info.Paths.Home}, elem...)...)
}

func countLines(lines []string, with string) int {
	n := 0
	for _, l := range lines {
		if strings.Contains(l, with) {
			n++
		}
	}
	return n
}

func count[P event.Payload](events []event.Event) int {
	n := 0
	for _, ev := range events {
		if is[P](ev) {
			n++
		}
	}
	return n
}
