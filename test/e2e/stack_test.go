package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/test/harness"
	"github.com/sojourn-run/sojourn/test/skip"
)

// patience bounds every wait of a test. No result depends on it.
const patience = harness.Patience

// tick is the interval at which conditions are polled. Many are queries, which take
// the stack, a worker and the test some milliseconds of processor time each.
const tick = 100 * time.Millisecond

// eventually waits until is reports true. What it requires of c may fail until then: on a
// busy machine a server answers late, or that it has no worker.
func eventually(t testing.TB, is func(c *assert.CollectT) bool, within, every time.Duration, why ...any) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.True(c, is(c), "not yet") }, within, every, why...)
}

// answerOf returns the answer to a question that changes nothing, so that it can be asked again.
func answerOf[T any](t testing.TB, question func() (T, error)) (answer T) {
	t.Helper()
	eventually(t, func(c *assert.CollectT) bool {
		var err error
		answer, err = question()
		require.NoError(c, err)
		return true
	}, patience, tick)
	return answer
}

// stack is the set of servers that all tests of this package share.
type stack struct {
	*harness.Stack

	// host starts the worker of onSharedHost, at most once; hosted is that worker.
	host   func() (*worker, error)
	hosted *worker
	// spaces has the namespaces of inOwnNamespace by the test's name.
	spaces sync.Map
}

var shared *stack

func TestMain(m *testing.M) {
	if code, called := harness.Tool(os.Args); called {
		os.Exit(code)
	}
	os.Exit(runAll(m))
}

func runAll(m *testing.M) (code int) {
	// The tests' own process is not measured, and has the memory.
	debug.SetGCPercent(400)
	s, err := harness.Start(context.Background(), harness.Options{
		Root: "../..", Name: "sojourn-e2e", Keep: os.Getenv("SOJOURN_E2E_KEEP") != "",
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer func() {
		if err := shared.endHost(); err != nil {
			fmt.Fprintln(os.Stderr, "e2e: stop the shared host:", err)
			code = 1
		}
		if err := s.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "e2e: stop the stack:", err)
			code = 1
		}
	}()
	shared = &stack{Stack: s}
	shared.host = sync.OnceValues(shared.startHost)
	return m.Run()
}

// worker is a worker process with a data folder of its own: a host.
type worker struct {
	*harness.Process
	dataDir string
}

func (w *worker) stop() error { return w.Stop() }

// hostDir returns a data folder for a host. It is removed with the test, unless that failed:
// tests look for a session in the folders of all hosts.
func hostDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(shared.Dir, "host-") // t.TempDir is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.RemoveAll(dir) // the stack's folder is removed with all that is in it
		}
	})
	return dir
}

// startWorker starts a worker. It is stopped, with its agents, when the test ends.
func startWorker(t *testing.T, extra ...string) *worker {
	t.Helper()
	dir := hostDir(t)
	w := startWorkerIn(t, dir, extra...)
	t.Cleanup(func() { require.NoError(t, harness.EndAgents(dir)) })
	return w
}

// inParallel runs a test in parallel with others, unless the time of the run is up. A test
// with servers of its own begins with it, others with one of the functions below. So does a
// subtest that runs in parallel: go begins those behind all tests, so that they are the
// last of a run.
func inParallel(t *testing.T) {
	t.Helper()
	t.Parallel()
	skip.WhenLate(t)
}

// inOwnNamespace runs a test in parallel with others, in a Temporal namespace and with
// a model of its own. The workers that it starts see its sessions only.
func inOwnNamespace(t *testing.T) {
	t.Helper()
	inParallel(t)
	aloneInOwnNamespace(t)
}

// aloneInOwnNamespace is inOwnNamespace for a test that needs the whole machine: none
// runs in parallel.
func aloneInOwnNamespace(t *testing.T) {
	t.Helper()
	space, err := shared.NewSpace(testContext(t), t.Name()+"-"+uuid.NewString())
	require.NoError(t, err)
	shared.spaces.Store(t.Name(), space)
	t.Cleanup(func() { shared.spaces.Delete(t.Name()); space.Close() })
}

// spaceOf returns the namespace of a test or of its subtests: its own, or that of the
// shared host.
func spaceOf(t *testing.T) *harness.Space {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	if own, ok := shared.spaces.Load(name); ok {
		return own.(*harness.Space)
	}
	return shared.Space
}

// onSharedHost runs a test in parallel with others, on one shared worker, which is
// started for the first of them. A test that needs a worker with settings of its own,
// stops one, or looks at all of a host or of the model, starts its own workers
// (startWorker) in a namespace of its own (inOwnNamespace).
func onSharedHost(t *testing.T) {
	t.Helper()
	inParallel(t)
	w, err := shared.host()
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the shared worker said:\n%s", w.Said())
		}
	})
}

func (s *stack) startHost() (*worker, error) {
	dir, err := os.MkdirTemp(s.Dir, "host-")
	if err != nil {
		return nil, err
	}
	p, err := s.StartWorker(context.Background(), dir)
	if err != nil {
		return nil, err
	}
	s.hosted = &worker{Process: p, dataDir: dir}
	return s.hosted, nil
}

// endHost stops the worker that host started, with its agents.
func (s *stack) endHost() error {
	if s.hosted == nil {
		return nil
	}
	return errors.Join(s.hosted.stop(), harness.EndAgents(s.hosted.dataDir))
}

// startWorkerIn starts a worker on a data folder that an earlier one may have used. It
// must use a namespace or servers of the test's own: beside the shared host it would
// take sessions of other tests.
func startWorkerIn(t *testing.T, dir string, extra ...string) *worker {
	t.Helper()
	ownServers := slices.ContainsFunc(extra, func(e string) bool { return strings.HasPrefix(e, "TEMPORAL_ADDRESS=") })
	require.True(t, ownServers || spaceOf(t) != shared.Space, "a test with workers of its own begins with inOwnNamespace")
	p, err := spaceOf(t).StartWorker(t.Context(), dir, extra...)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("stop worker: %v", err)
		}
		if t.Failed() {
			t.Logf("worker said:\n%s", p.Said())
		}
	})
	return &worker{Process: p, dataDir: dir}
}
