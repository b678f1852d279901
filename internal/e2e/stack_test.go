package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/internal/harness"
	"github.com/sojourn-run/sojourn/internal/modelsim"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// patience bounds every wait of a test; nothing is judged by it.
const patience = harness.Patience

// tick is how often a condition is looked at that has no signal of its own.
const tick = 20 * time.Millisecond

// stack is the set of servers that all tests of this package share.
type stack struct {
	*harness.Stack
	bin, agents string
	dir         string
	env         map[string]string
	model       *modelsim.Server
	modelURL    string

	temporal client.Client
	log      *stream.Log
	archive  *archive.Archive
	client   *session.Client

	// host starts the worker of onSharedHost, at most once; hosted is it.
	host   func() (*worker, error)
	hosted *worker
}

var shared *stack

func TestMain(m *testing.M) {
	if code, called := harness.Tool(os.Args); called {
		os.Exit(code)
	}
	os.Exit(runAll(m))
}

func runAll(m *testing.M) (code int) {
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
	shared = &stack{
		Stack: s, bin: s.Bin, agents: s.Agents, dir: s.Dir, env: s.Env, model: s.Model, modelURL: s.ModelURL,
		temporal: s.Temporal, log: s.Log, archive: s.Archive, client: s.Client,
	}
	shared.host = sync.OnceValues(shared.startHost)
	return m.Run()
}

// worker is a worker process with a data folder of its own: a host.
type worker struct {
	*harness.Process
	dataDir string
	// before are the sessions that were open before a test's first worker: tests
	// leave some, and a worker takes up what it finds.
	before []string
}

func (w *worker) stop() error { return w.Stop() }

// startWorker starts a worker and has it stopped, with its agents, when the
// test ends.
func startWorker(t *testing.T, extra ...string) *worker {
	t.Helper()
	dir, err := os.MkdirTemp(shared.dir, "host-")
	require.NoError(t, err)
	before := openSessions(t)
	w := startWorkerIn(t, dir, extra...)
	w.before = before
	t.Cleanup(func() { require.NoError(t, harness.EndAgents(dir)) })
	return w
}

// openSessions are those that Temporal's index has as open.
func openSessions(t *testing.T) (ids []string) {
	t.Helper()
	var page []byte
	for more := true; more; more = len(page) > 0 {
		found, err := shared.temporal.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
			Query: "WorkflowType = '" + session.WorkflowType + "' AND ExecutionStatus = 'Running'", NextPageToken: page,
		})
		require.NoError(t, err)
		for _, info := range found.GetExecutions() {
			ids = append(ids, info.GetExecution().GetWorkflowId())
		}
		page = found.GetNextPageToken()
	}
	return ids
}

// onSharedHost has a test run beside others, on one worker for all of them that
// is started for the first and kept. go test begins them when the other tests have
// ended, whose workers would take their sessions. A test that needs a worker with
// settings of its own, stops one, or looks at all that a host or the model has,
// starts its own (startWorker) and runs alone.
func onSharedHost(t *testing.T) {
	t.Helper()
	t.Parallel()
	w, err := shared.host()
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the shared worker said:\n%s", w.Said())
		}
	})
}

func (s *stack) startHost() (*worker, error) {
	dir, err := os.MkdirTemp(s.dir, "host-")
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

// endHost ends what startHost started, with the agents on it.
func (s *stack) endHost() error {
	if s.hosted == nil {
		return nil
	}
	return errors.Join(s.hosted.stop(), harness.EndAgents(s.hosted.dataDir))
}

// startWorkerIn starts a worker on a data folder that may have had one before.
func startWorkerIn(t *testing.T, dir string, extra ...string) *worker {
	t.Helper()
	p, err := shared.StartWorker(t.Context(), dir, extra...)
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
