package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/executable"
	"github.com/sojourn-run/sojourn/test/harness"
	"github.com/sojourn-run/sojourn/test/parity"
)

// killable is a host whose worker is killed and started again.
type killable struct {
	t     *testing.T
	dir   string
	extra []string

	mu    sync.Mutex
	now   *harness.Process
	kills []time.Time
}

func startKillable(t *testing.T, extra ...string) *killable {
	t.Helper()
	dir := hostDir(t)
	k := &killable{t: t, dir: dir, extra: extra}
	t.Cleanup(func() { require.NoError(t, harness.EndAgents(dir)) })
	k.start()
	t.Cleanup(func() {
		require.NoError(t, k.now.Stop())
		if t.Failed() {
			t.Logf("the last worker said:\n%s", k.now.Said())
		}
	})
	return k
}

func (k *killable) start() {
	// A host that returns with an empty disk creates its folder again.
	require.NoError(k.t, os.MkdirAll(k.dir, 0o700))
	p, err := spaceOf(k.t).StartWorker(k.t.Context(), k.dir, k.extra...)
	require.NoError(k.t, err)
	k.now = p
}

// kill kills the worker with SIGKILL, and starts the next one on the same data folder.
func (k *killable) kill() { k.killed(func() {}) }

// killed calls meanwhile while there is no worker.
func (k *killable) killed(meanwhile func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.replace(meanwhile)
}

// killedInTurns is killed for several sessions with running turns: none may keep the worker
// from taking up another's turn for as long as an agent's lease.
func (k *killable) killedInTurns(meanwhile func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	require.Eventually(k.t, k.heard, patience, tick, "a worker takes up each turn")
	k.replace(meanwhile)
}

func (k *killable) replace(meanwhile func()) {
	k.kills = append(k.kills, time.Now())
	require.NoError(k.t, k.now.Kill())
	meanwhile()
	k.start()
}

// unheard is how long a turn may be without a heartbeat when its worker is killed again: with
// the start of the next one, well within the agent's lease of 40 s.
const unheard = 10 * time.Second

// heard reports whether each running turn in the namespace had a heartbeat lately.
func (k *killable) heard() bool {
	c := spaceOf(k.t).Temporal
	open, err := c.ListWorkflow(testContext(k.t), &workflowservice.ListWorkflowExecutionsRequest{Query: "ExecutionStatus = 'Running'"})
	require.NoError(k.t, err)
	for _, e := range open.GetExecutions() {
		d, err := c.DescribeWorkflowExecution(testContext(k.t), e.GetExecution().GetWorkflowId(), "")
		require.NoError(k.t, err)
		for _, a := range d.GetPendingActivities() {
			beat := a.GetLastHeartbeatTime()
			if a.GetActivityType().GetName() == contract.ActivityRunTurn && beat != nil && time.Since(beat.AsTime()) > unheard {
				return false
			}
		}
	}
	return true
}

// undisturbed calls something during which the worker isn't killed.
func (k *killable) undisturbed(something func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	something()
}

// lose kills the worker, every runner and all processes below them with SIGKILL, and
// removes the data folder.
func (k *killable) lose() {
	require.NoError(k.t, k.now.Kill())
	pids, err := harness.Agents(k.dir)
	require.NoError(k.t, err)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	require.True(k.t, waits(func() bool { return os.RemoveAll(k.dir) == nil }), "a process that is dying may still write")
}

// listener follows a session's stream all the time, and records when it received each
// event.
type listener struct {
	done chan struct{}
	err  error
	end  context.CancelFunc

	mu    sync.Mutex
	heard []event.Event
	at    []time.Time
	// news is closed and replaced at each event.
	news chan struct{}
}

func follow(t *testing.T, h *session.Handle) *listener { return followAfter(t, h, 0) }

func followAfter(t *testing.T, h *session.Handle, after uint64) *listener {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &listener{done: make(chan struct{}), end: cancel, news: make(chan struct{})}
	go l.listen(ctx, h, after)
	t.Cleanup(func() { cancel(); <-l.done })
	return l
}

func (l *listener) listen(ctx context.Context, h *session.Handle, after uint64) {
	defer close(l.done)
	for ev, err := range h.Events(ctx, after, session.Follow) {
		if err != nil {
			l.err = err
			return
		}
		l.mu.Lock()
		l.heard, l.at = append(l.heard, ev), append(l.at, time.Now())
		close(l.news)
		l.news = make(chan struct{})
		l.mu.Unlock()
	}
}

// until waits for an event after the first n for which enough returns true, and returns
// the number of events up to it.
func (l *listener) until(t *testing.T, n int, enough func(event.Event) bool) int {
	t.Helper()
	patience := time.After(patience)
	for {
		l.mu.Lock()
		heard, news := l.heard, l.news
		l.mu.Unlock()
		for ; n < len(heard); n++ {
			if enough(heard[n]) {
				return n + 1
			}
		}
		select {
		case <-news:
		case <-l.done:
			require.FailNow(t, "the stream ended before", "%v", l.err)
		case <-patience:
			require.FailNow(t, "no such event was received", "last: %s", heardTail(heard))
		}
	}
}

// all returns the events received so far.
func (l *listener) all() []event.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard
}

func heardTail(heard []event.Event) string {
	var types []string
	for _, ev := range heard[max(0, len(heard)-12):] {
		types = append(types, string(ev.Type()))
	}
	return strings.Join(types, " ")
}

// closed waits for the session's last event and returns all events, each of which must
// have been received once and in order.
func (l *listener) closed(t *testing.T) []event.Event {
	t.Helper()
	l.until(t, 0, nth[event.SessionClosed](1))
	l.end()
	<-l.done
	for i, ev := range l.heard {
		require.EqualValues(t, i+1, ev.Context.Seq, "no gap and no repeat: %s", ev.Type())
	}
	return l.heard
}

// pause returns the longest silence that a kill can have caused: between the kill and
// the next one.
func (l *listener) pause(from, to time.Time) (longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := from
	for _, at := range l.at {
		if at.Before(from) || at.After(to) {
			continue
		}
		longest, last = max(longest, at.Sub(last)), at
	}
	return longest
}

// head returns the beginning of a text.
func head(text string, n int) string { return text[:min(n, len(text))] }

// percentile returns the p-quantile of durations.
func percentile(all []time.Duration, p float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

// asked counts the model's requests for the prompts that contain a mark, by prompt and
// number of tool results; more than one is an extra call. Random texts in prompts are
// passed in also.
func asked(t *testing.T, mark string, also ...string) map[string]map[int]int {
	t.Helper()
	out := map[string]map[int]int{}
	for _, s := range spaceOf(t).Model.Stats().Sessions {
		for _, p := range s.Prompts {
			if !strings.Contains(p.Text, mark) {
				continue
			}
			text := strings.ReplaceAll(p.Text, mark, "MARK")
			for _, name := range also {
				text = strings.ReplaceAll(text, name, "NAME")
			}
			text = head(text, 120)
			if out[text] == nil {
				out[text] = map[int]int{}
			}
			for step, n := range p.Steps {
				out[text][step] += n
			}
		}
	}
	return out
}

// delivered counts the inputs in a sandbox's spools that contain a text.
func delivered(t *testing.T, dir, sessionID, text string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "sandboxes", sessionID+"-*", "control", "spool", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	n := 0
	for _, file := range files {
		f, err := os.Open(file)
		require.NoError(t, err)
		lines := bufio.NewReader(f)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			var r traffic.Record
			if json.Unmarshal([]byte(line), &r) == nil && r.Dir == event.DirIn && strings.Contains(r.Line, text) {
				n++
			}
		}
		require.NoError(t, f.Close())
	}
	return n
}

// requireSame compares the conversations from stream and archive, lost blocks included,
// and prints where they differ.
func requireSame(t *testing.T, id string) {
	t.Helper()
	live, err := spaceOf(t).Client.Show(testContext(t), id, session.FromStream)
	require.NoError(t, err)
	restored, err := spaceOf(t).Client.Show(testContext(t), id, session.FromArchive)
	require.NoError(t, err)
	require.Empty(t, restored.Faults)
	require.Empty(t, differences(t, live, restored))
}

// differences are those of the streamed and the archived conversation, apart from what the
// agent can't have in common.
func differences(t *testing.T, live, restored session.Conversation) []parity.Difference {
	t.Helper()
	found, err := parity.Compare(live.State, restored.State, parity.Rules{})
	require.NoError(t, err)
	return found
}

// supervised is a worker's supervisor.
type supervised struct{ *harness.Process }

func startSupervised(t *testing.T, dir string) supervised {
	t.Helper()
	// The stack's command line begins with the flags, and the supervisor's subcommand
	// must be before them.
	bin := filepath.Join(t.TempDir(), "supervise")
	script := "#!/bin/sh\nexec " + filepath.Join(shared.Bin, "sojourn-worker") + " supervise \"$@\"\n"
	executable.Write(t, bin, []byte(script))
	p, err := spaceOf(t).StartWorker(t.Context(), dir, "SOJOURN_WORKER_BIN="+bin)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Stop()) })
	return supervised{p}
}

// child returns the process id of the supervised worker, once it is another one than
// other and serves.
func (s supervised) child(t *testing.T, other int) (pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		// Any thread may have started it.
		tasks, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(s.PID()), "task", "*", "children"))
		var children []byte
		for _, file := range tasks {
			of, _ := os.ReadFile(file) // a thread may have ended
			children = append(children, of...)
		}
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(children)))
		}
		return err == nil && pid != other
	}, patience, tick)
	return pid
}

// processes returns the processes of the session's sandbox.
func (s *staged) processes() []int {
	s.t.Helper()
	pids, err := harness.Agents(s.dir)
	require.NoError(s.t, err)
	pids = slices.DeleteFunc(pids, func(pid int) bool {
		env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		return err != nil || !strings.Contains(string(env), s.h.ID())
	})
	require.NotEmpty(s.t, pids)
	return pids
}

// isRunner reports whether a process is the runner's program.
func isRunner(pid int) bool {
	exe, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
	return err == nil && strings.HasPrefix(filepath.Base(exe), "sojourn-runner")
}

// endAgent signals the agent's own process, the one that its runner started. It waits
// until the runner has noticed the exit, which a crash report may delay.
func (s *staged) endAgent(how syscall.Signal) {
	s.t.Helper()
	var ended []int
	for _, pid := range s.processes() {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if err != nil || isRunner(pid) {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		parent, err := strconv.Atoi(fields[1])
		require.NoError(s.t, err)
		if isRunner(parent) {
			require.NoError(s.t, syscall.Kill(pid, how))
			ended = append(ended, pid)
		}
	}
	require.NotEmpty(s.t, ended, "a living agent")
	require.Eventually(s.t, func() bool {
		return !slices.ContainsFunc(ended, func(pid int) bool { return syscall.Kill(pid, 0) == nil })
	}, patience, tick)
}

// endRunner kills the runner's own processes, and none below them.
func (s *staged) endRunner() {
	s.t.Helper()
	ended := 0
	for _, pid := range s.processes() {
		if isRunner(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			ended++
		}
	}
	require.Positive(s.t, ended)
}

// failedByName waits for the turn's end and checks that it is a named failure
// everywhere.
func (s *staged) failedByName() {
	s.t.Helper()
	res, err := s.h.Wait(testContext(s.t), s.r)
	require.NoError(s.t, err)
	require.Equal(s.t, session.Failed, res.Outcome)
	require.Equal(s.t, session.TypeAgentFailed, res.Error.Code)
	require.Contains(s.t, res.Error.Message, "the agent ended in the middle of the turn")
	require.Empty(s.t, payloads[event.QueryCompleted](s.l.all()))
}

// goOn lets the script run to its end, in whatever sandbox. The tool waits for a file
// that no snapshot has, so goOn must create it in each workspace.
func (s *staged) goOn() {
	for n := range s.gates {
		s.openGate(n)
	}
	go s.feed()
}

// feed creates the file that the tool waits for in every workspace of the session,
// until the session is closed. Each look reads the folders of all hosts.
func (s *staged) feed() {
	look := time.NewTicker(5 * tick)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			found, _ := filepath.Glob(filepath.Join(shared.Dir, "host-*", "sandboxes", s.h.ID()+"-*", "workspace"))
			for _, workspace := range found {
				_ = os.WriteFile(filepath.Join(workspace, "go"), nil, 0o600)
			}
		case <-s.l.done:
			return
		}
	}
}

// resumed reports whether the conversation has the block of a resumed turn.
func (s *staged) resumed() bool {
	return slices.ContainsFunc(fold(s.l.all()).Blocks, func(b event.Block) bool { return b.Subtype == "resumed" })
}
