package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/harness"
	"github.com/sojourn-run/sojourn/test/parity"
	"github.com/sojourn-run/sojourn/test/skip"
)

// splitRuns is how often each variant is run, all runs at the same time. With few runs
// the variants also run at the same time.
var splitRuns = flag.Int("sojourn.splitbrain", 1, "runs of each split-brain variant")

// apart is the number of runs from which the variants run one after the other.
const apart = 5

// split is one way in which a host is lost and later returns.
type split struct {
	name string
	// plain: the host allows no namespaces.
	plain bool
	// quick: a short run has it too.
	quick bool
	// stops reports which of the host's processes are stopped.
	stops func(worker int, p harness.Seen) bool
	// cuts are the variables of the servers that the worker is cut off from.
	cuts []string
}

func splits() []split {
	workerOnly := func(worker int, p harness.Seen) bool { return p.PID == worker }
	withRunner := func(worker int, p harness.Seen) bool {
		return p.PID == worker || strings.HasPrefix(filepath.Base(p.Cmdline), "sojourn-runner")
	}
	everything := func(int, harness.Seen) bool { return true }
	network := []string{"TEMPORAL_ADDRESS", "NATS_URL", "AWS_ENDPOINT_URL_S3"}
	var all []split
	for _, plain := range []bool{false, true} {
		all = append(all,
			split{name: "worker stopped", plain: plain, stops: workerOnly},
			split{name: "worker and runner stopped", plain: plain, stops: withRunner},
			split{name: "whole tree stopped", plain: plain, quick: !plain, stops: everything},
			split{name: "cut off from Temporal", plain: plain, cuts: network[:1]},
			split{name: "cut off from everything", plain: plain, quick: !plain, cuts: network},
		)
	}
	return all
}

func (s split) String() string {
	if s.plain {
		return s.name + ", no namespaces"
	}
	return s.name
}

// TestSplitBrain loses hosts during a tool, has another one take over and lets them
// return. The tools, old and new, write to one file outside all sandboxes: no two
// epochs of a session are ever alive at the same time, and nothing of the old one is
// accepted.
func TestSplitBrain(t *testing.T) {
	inOwnNamespace(t)
	// Codex returns from a tool that still runs after ten seconds, and the script asks for
	// the next one: the eight would be used up before a slow machine's hosts are lost.
	withClaude(t)
	batches := [][]split{splits()}
	if testing.Short() {
		t.Run("others", func(t *testing.T) { skip.InShort(t, "of the ways to lose a host, a stopped one and a cut off one") })
		batches = [][]split{slices.DeleteFunc(splits(), func(s split) bool { return !s.quick })}
	}
	if *splitRuns >= apart {
		batches = nil
		for _, s := range splits() {
			batches = append(batches, []split{s})
		}
	}
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "variant\truns\thandovers\toverlaps\tlongest pause")
	defer func() { w.Flush(); t.Log("\n" + table.String()) }()
	for _, batch := range batches {
		name := "all variants"
		if len(batch) == 1 {
			name = batch[0].String()
		}
		t.Run(name, func(t *testing.T) { runSplits(t, batch, *splitRuns, w) })
	}
}

// victim is a host that is lost and returns.
type victim struct {
	split
	*worker
	cut      []*harness.Forwarder
	stopped  []harness.Seen
	sessions []*session.Handle
	receipts []session.Receipt
}

// splitPatience bounds the waits for all sessions together.
const splitPatience = 5 * time.Minute

func runSplits(t *testing.T, variants []split, runs int, table *tabwriter.Writer) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*splitPatience)
	defer cancel()
	beats := newBeatFile(t)
	var victims []*victim
	for _, s := range variants {
		// One after the other: each is full before the next one starts.
		victims = append(victims, loseable(ctx, t, s, runs, beats))
	}
	began := time.Now()
	phase := func(name string) { t.Logf("%s after %.0f s", name, time.Since(began).Seconds()) }
	startWorker(t, fmt.Sprintf("--capacity=%d", runs*len(variants)))
	lost := map[string]uint64{}
	for _, b := range beats.read(t) {
		lost[b.Session] = b.Epoch
	}
	for _, v := range victims {
		v.lose(t)
	}
	beats.await(t, victims, func(newest harness.Beat, _ int) bool { return newest.Epoch > lost[newest.Session] })
	phase("all hosts were replaced")
	for _, v := range victims {
		v.comeBack(t)
	}
	woken := beats.count(t)
	beats.await(t, victims, func(b harness.Beat, n int) bool { return n > woken[b.Session]+40 })
	phase("all that was lost has come back")
	beats.end(t)
	each(victims, func(v *victim) { v.finish(ctx, t) })
	phase("all is closed")
	if t.Failed() {
		return
	}
	for _, v := range victims {
		v.judge(t, beats.read(t), runs, table)
	}
}

// each calls do for all victims at the same time.
func each(victims []*victim, do func(*victim)) {
	var all sync.WaitGroup
	for _, v := range victims {
		all.Go(func() { do(v) })
	}
	all.Wait()
}

// loseable starts a host and fills it with sessions whose tools write beats.
func loseable(ctx context.Context, t *testing.T, s split, runs int, beats *beatFile) *victim {
	t.Helper()
	v := &victim{split: s}
	extra := []string{fmt.Sprintf("--capacity=%d", runs)}
	if s.plain {
		setting, err := shared.NoNamespaces()
		require.NoError(t, err)
		extra = append(extra, setting, "--unsafe-local")
	}
	for _, name := range s.cuts {
		f, through := forward(t, shared.Env[name])
		v.cut = append(v.cut, f)
		extra = append(extra, name+"="+through)
	}
	v.worker = startWorker(t, extra...)
	require.Equal(t, s.plain, strings.Contains(v.Said(), "no security boundary"), "what agents are shut in by: %s", v.Said())
	for range runs {
		h := open(t, session.Options{Title: s.String()})
		r, err := h.Send(ctx, session.Message{Text: beats.script})
		require.NoError(t, err)
		v.sessions, v.receipts = append(v.sessions, h), append(v.receipts, r)
	}
	beats.await(t, []*victim{v}, func(harness.Beat, int) bool { return true })
	require.Len(t, sandboxes(t, v.worker), runs, "all are on this host")
	return v
}

// lose stops or cuts off what the variant names.
func (v *victim) lose(t *testing.T) {
	t.Helper()
	for _, f := range v.cut {
		f.Stop()
	}
	if v.stops == nil {
		return
	}
	family, err := harness.Family(v.dataDir+"/", v.PID())
	require.NoError(t, err)
	for _, p := range family {
		if v.stops(v.PID(), p) {
			v.stopped = append(v.stopped, p)
		}
	}
	require.NotEmpty(t, v.stopped)
	require.NoError(t, harness.SignalSeen(syscall.SIGSTOP, v.stopped...))
	t.Cleanup(func() { require.NoError(t, harness.SignalSeen(syscall.SIGCONT, v.stopped...)) })
}

// comeBack undoes lose. The process stopped last continues first: tools before those
// that could end them.
func (v *victim) comeBack(t *testing.T) {
	t.Helper()
	for _, f := range v.cut {
		require.NoError(t, f.Start())
	}
	slices.Reverse(v.stopped)
	require.NoError(t, harness.SignalSeen(syscall.SIGCONT, v.stopped...))
}

// finish waits for the answers and closes the sessions; then nothing of them may be
// left on the lost host.
func (v *victim) finish(ctx context.Context, t *testing.T) {
	for i, h := range v.sessions {
		res, err := h.Wait(ctx, v.receipts[i])
		if !noError(t, err, "%s: %s", v, h.ID()) || !noError(t, res.Err(), "%s: %s", v, h.ID()) {
			continue
		}
		noError(t, h.Close(ctx), "%s: close %s", v, h.ID())
	}
}

// noError is require.NoError for goroutines that are not the test's.
func noError(t *testing.T, err error, msg string, args ...any) bool {
	if err != nil {
		t.Errorf(msg+": %v", append(args, err)...)
	}
	return err == nil
}

// judge checks the beats of a victim's sessions and adds a row to the table.
func (v *victim) judge(t *testing.T, beats []harness.Beat, runs int, table *tabwriter.Writer) {
	t.Helper()
	of := map[string]bool{}
	for _, h := range v.sessions {
		of[h.ID()] = true
	}
	verdict := harness.Judge(slices.DeleteFunc(slices.Clone(beats), func(b harness.Beat) bool { return !of[b.Session] }))
	fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%.1f s\n", v, verdict.Sessions, verdict.Handovers, len(verdict.Overlaps), verdict.Longest.Seconds())
	require.Empty(t, verdict.Overlaps, "%s", v)
	require.Equal(t, runs, verdict.Sessions)
	require.GreaterOrEqual(t, verdict.Handovers, runs)
	for _, h := range v.sessions {
		v.requireFenced(t, h)
	}
	var left []harness.Seen
	eventually(t, func(c *assert.CollectT) bool {
		family, err := harness.Family(v.dataDir+"/", 0)
		require.NoError(c, err)
		left = family
		return len(left) == 0
	}, patience, tick, "%s: left on the host that was lost: %v", v, left)
}

// requireFenced checks that the stream has no gaps, that its fences grow, and that it
// equals the new agent's transcript.
func (v *victim) requireFenced(t *testing.T, h *session.Handle) {
	t.Helper()
	var epochs []uint64
	completed := 0
	for i, ev := range events(t, h) {
		require.Equal(t, uint64(i+1), ev.Context.Seq, "%s: %s: dense", v, h.ID())
		switch p := ev.Payload.(type) {
		case event.Status:
			if p.Epoch > 0 {
				epochs = append(epochs, p.Epoch)
			}
		case event.QueryCompleted:
			completed++
		case event.QueryFailed, event.QueryInterrupted:
			require.Fail(t, "a query ended otherwise", "%s: %s: %v", v, h.ID(), ev)
		}
	}
	require.Equal(t, 1, completed, "%s: %s", v, h.ID())
	require.True(t, slices.IsSorted(epochs), "%s: %s: %v", v, h.ID(), epochs)
	require.GreaterOrEqual(t, len(slices.Compact(epochs)), 2, "%s: %s: %v", v, h.ID(), epochs)
	// What the lost agent had streamed and not written is marked.
	live, err := spaceOf(t).Client.Show(testContext(t), h.ID(), session.FromStream)
	require.NoError(t, err)
	restored, err := spaceOf(t).Client.Show(testContext(t), h.ID(), session.FromArchive)
	require.NoError(t, err)
	require.Empty(t, restored.Faults)
	differences, err := parity.Compare(live.State, restored.State, parity.Rules{})
	require.NoError(t, err)
	require.Empty(t, differences, "%s: %s", v, h.ID())
}

// beatFile is the one file that all tools write to.
type beatFile struct {
	path, script string
}

func newBeatFile(t *testing.T) *beatFile {
	t.Helper()
	dir := t.TempDir()
	b := &beatFile{path: filepath.Join(dir, "beats")}
	require.NoError(t, os.WriteFile(b.path, nil, 0o600))
	command, err := harness.BeatCommand(b.path)
	require.NoError(t, err)
	// For the model, a tool has ended if it was cut off or has taken longer than the
	// agent allows; it then continues with the next one.
	b.script = strings.Repeat("TOOL bash: "+command+" THEN ", 8) + "SAY done"
	return b
}

func (b *beatFile) read(t *testing.T) []harness.Beat {
	t.Helper()
	f, err := os.Open(b.path)
	require.NoError(t, err)
	defer f.Close()
	all, err := harness.ReadBeats(f)
	require.NoError(t, err)
	return all
}

// end ends all tools.
func (b *beatFile) end(t *testing.T) {
	t.Helper()
	require.NoError(t, os.WriteFile(b.path+".end", nil, 0o600))
}

// count returns the number of each session's beats.
func (b *beatFile) count(t *testing.T) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, beat := range b.read(t) {
		n[beat.Session]++
	}
	return n
}

// await waits until enough returns true for each session of the victims, given its
// newest beat and the number of its beats.
func (b *beatFile) await(t *testing.T, victims []*victim, enough func(newest harness.Beat, n int) bool) {
	t.Helper()
	var waiting []string
	require.Eventually(t, func() bool {
		newest, n := map[string]harness.Beat{}, map[string]int{}
		for _, beat := range b.read(t) {
			newest[beat.Session] = beat
			n[beat.Session]++
		}
		waiting = nil
		for _, v := range victims {
			for _, h := range v.sessions {
				if n[h.ID()] == 0 || !enough(newest[h.ID()], n[h.ID()]) {
					waiting = append(waiting, v.String()+" "+h.ID())
				}
			}
		}
		return len(waiting) == 0
	}, splitPatience, time.Second, "still waiting: %v", &waiting)
}
