package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/claude"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// TestKillWorkerPause kills the worker repeatedly within one turn that streams all the
// time, with every agent, and logs how long a subscriber received nothing. It asserts
// no limit.
func TestKillWorkerPause(t *testing.T) {
	skip.InShort(t, "a figure; TestKillWorkerInATurn kills workers too")
	inOwnNamespace(t)
	k := startKillable(t)
	type talk struct {
		l *listener
		h *session.Handle
		r session.Receipt
	}
	var talks []talk
	for _, a := range scripted() {
		h := open(t, session.Options{Agent: a.Info().Name})
		l := follow(t, h)
		r, err := h.Send(testContext(t), session.Message{Text: "SLOW 40"})
		require.NoError(t, err)
		talks = append(talks, talk{l, h, r})
	}
	heard := make([]int, len(talks))
	for range 6 {
		for i, x := range talks {
			heard[i] = x.l.until(t, heard[i], nth[event.BlockDelta](3))
		}
		k.kill()
		t.Logf("ready again %s after the kill", time.Since(k.kills[len(k.kills)-1]).Round(time.Millisecond))
	}
	var pauses []time.Duration
	for i, x := range talks {
		x.l.until(t, heard[i], nth[event.BlockDelta](3))
	}
	ended := time.Now()
	for _, x := range talks {
		_, err := x.h.Interrupt(testContext(t), session.InterruptRequest{})
		require.NoError(t, err)
		_, err = x.h.Wait(testContext(t), x.r)
		require.NoError(t, err)
		require.NoError(t, x.h.Close(testContext(t)))
		x.l.closed(t)
		for n, at := range k.kills {
			pauses = append(pauses, x.l.pause(at, append(k.kills, ended)[n+1]))
		}
		requireSame(t, x.h.ID())
	}
	t.Logf("a subscriber's pause per kill of the worker, %d: p50 %s p95 %s max %s", len(pauses),
		percentile(pauses, 0.5), percentile(pauses, 0.95), percentile(pauses, 1))
}

// staged is a session whose turn waits at points where a test can disturb it: while it
// streams text, while a tool runs, while a subagent runs, and again while it streams.
type staged struct {
	t     *testing.T
	dir   string
	h     *session.Handle
	l     *listener
	r     session.Receipt
	mark  string
	gates [3]string
}

// stage starts the turn of a new session on the only host.
func stage(t *testing.T, dir, agent string) *staged {
	t.Helper()
	return stageThen(t, dir, agent, func(s *staged) string {
		return " THEN SUBAGENT SAY inner " + s.mark + " ANDTHEN GATE " + s.gates[1] + " ANDTHEN TOOL bash: echo inner"
	})
}

// stageThen is stage with more steps after the tool. Codex doesn't wait for a tool that
// takes long, so on a busy machine it reaches those steps soon.
func stageThen(t *testing.T, dir, agent string, then func(*staged) string) *staged {
	t.Helper()
	return stageIn(t, dir, open(t, session.Options{Agent: agent}), then)
}

func stageIn(t *testing.T, dir string, h *session.Handle, then func(*staged) string) *staged {
	t.Helper()
	s := &staged{t: t, dir: dir, h: h, mark: uuid.NewString()}
	s.l = follow(t, s.h)
	for i := range s.gates {
		s.gates[i] = "kill-" + uuid.NewString()
	}
	var err error
	s.r, err = s.h.Send(testContext(t), session.Message{Text: "SAY " + s.mark + " THEN GATE " + s.gates[0] +
		" THEN TOOL bash: echo > begun; until [ -e go ]; do sleep 0.5; done; echo worked" + then(s) +
		" THEN GATE " + s.gates[2] + " THEN SAY the end"})
	require.NoError(t, err)
	return s
}

// atGate waits until the model holds back an answer at a gate.
func (s *staged) atGate(n int) {
	require.NoError(s.t, spaceOf(s.t).Model.Waiting(testContext(s.t), s.gates[n]))
}

func (s *staged) openGate(n int) { spaceOf(s.t).Model.Open(s.gates[n]) }

// inTool waits until the tool runs and its call was streamed, and returns a function that
// lets it end.
func (s *staged) inTool() (letGo func()) {
	s.t.Helper()
	s.callsStreamed(1)
	workspace := ""
	require.Eventually(s.t, func() bool {
		found, err := filepath.Glob(filepath.Join(s.dir, "sandboxes", s.h.ID()+"-*", "workspace", "begun"))
		if err != nil || len(found) != 1 {
			return false
		}
		workspace = filepath.Dir(found[0])
		return true
	}, patience, tick, "the tool runs")
	return func() { require.NoError(s.t, os.WriteFile(filepath.Join(workspace, "go"), nil, 0o600)) }
}

// play runs the turn to its end and calls strike at each point of it. The agent
// continues in between.
func (s *staged) play(strike func(meanwhile func())) session.Result {
	nothing := func() {}
	s.l.until(s.t, 0, nth[event.EECreating](1))
	strike(nothing)
	s.l.until(s.t, 0, nth[event.QueryStarted](1))
	strike(nothing)
	s.atGate(0)
	strike(func() { s.openGate(0) })
	strike(s.inTool())
	s.atGate(1)
	strike(func() { s.openGate(1) })
	s.atGate(2)
	strike(nothing)
	strike(nothing)
	strike(func() { s.openGate(2) })
	s.l.until(s.t, 0, nth[event.QueryCompleted](1))
	strike(nothing)
	res, err := s.h.Wait(testContext(s.t), s.r)
	require.NoError(s.t, err)
	return res
}

// settled ends the session and checks that the disturbances are not visible.
func (s *staged) settled() []event.Event {
	s.t.Helper()
	require.Equal(s.t, 1, delivered(s.t, s.dir, s.h.ID(), s.mark), "the prompt went to the agent once")
	again := say(s.t, s.h, "RECALL")
	require.NoError(s.t, again.Err())
	require.Contains(s.t, again.Result.Response, s.gates[2], "the agent remembers its prompt")
	require.NoError(s.t, s.h.Close(testContext(s.t)))
	heard := s.l.closed(s.t)
	requireSame(s.t, s.h.ID())
	return heard
}

// TestKillWorkerInATurn kills the worker at every stage of a turn, with every agent,
// and again while the session is idle. The turn ends well, answer and requests are
// those of an undisturbed run, and subscribers receive each event once.
func TestKillWorkerInATurn(t *testing.T) {
	inOwnNamespace(t)
	k := startKillable(t)
	calm := map[string]map[string]map[int]int{}
	var mu sync.Mutex
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		s := stage(t, k.dir, a.Info().Name)
		require.NoError(t, s.play(func(meanwhile func()) { meanwhile() }).Err())
		s.settled()
		mu.Lock()
		defer mu.Unlock()
		calm[a.Info().Name] = asked(t, s.mark, s.gates[:]...)
	})
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		s := stage(t, k.dir, a.Info().Name)
		res := s.play(k.killedInTurns)
		require.NoError(t, res.Err())
		require.Contains(t, res.Result.Response, "the end")
		awaitIdle(t, s.h)
		k.kill()
		heard := s.settled()
		require.Len(t, payloads[event.QueryStarted](heard), 2)
		require.Len(t, payloads[event.QueryCompleted](heard), 2)
		begun := slices.IndexFunc(heard, func(ev event.Event) bool { return ev.Type() == "query:started" })
		require.Empty(t, payloads[event.EECreating](heard[begun:]), "the same sandbox to the end")
		require.Equal(t, 0, last(restarts(t, s.h)), "the same process")
		require.Equal(t, calm[a.Info().Name], asked(t, s.mark, s.gates[:]...), "the model was asked what it is asked without a kill")
	})
	t.Logf("the worker was killed %d times", len(k.kills))
}

// TestKillWorkerHandsOver: a worker that gets SIGTERM leaves the turn to the next one
// and does not wait for it. A supervised worker is started again, whatever ended it.
func TestKillWorkerHandsOver(t *testing.T) {
	skip.InShort(t, "TestKillWorkerInATurn kills the worker, which is harder")
	inOwnNamespace(t)
	k := startKillable(t)
	s := stage(t, k.dir, "claude")
	s.atGate(0)
	require.NoError(t, k.now.Stop(), "it ends though the turn does not")
	require.Empty(t, payloads[event.QueryCompleted](s.l.all()))
	s.openGate(0)
	k.start()
	s.inTool()()
	s.atGate(1)
	require.NoError(t, k.now.Stop())

	supervised := startSupervised(t, k.dir)
	child := supervised.child(t, 0)
	s.openGate(1)
	s.atGate(2)
	require.NoError(t, syscall.Kill(child, syscall.SIGKILL))
	require.NotEqual(t, child, supervised.child(t, child))
	s.openGate(2)
	require.NoError(t, answeredWell(testContext(t), t, s.h, s.r).Err())
	heard := s.settled()
	require.Equal(t, 0, last(restarts(t, s.h)))
	require.Len(t, payloads[event.QueryStarted](heard), 2)
	require.NoError(t, supervised.Stop())
	k.start()
}

// TestKillAgent kills the agent in a turn, while a tool runs and while it is idle, with
// a living and with a dead worker. The turn fails by name, and the next one continues
// the conversation in a new process.
func TestKillAgent(t *testing.T) {
	skip.InShort(t, "TestKillAgentInATool kills agents too")
	withClaude(t)
	inOwnNamespace(t)
	k := startKillable(t)
	t.Run("agent", func(t *testing.T) { killAgents(t, k) })
}

func killAgents(t *testing.T, k *killable) {
	for _, with := range []struct {
		name string
		how  syscall.Signal
		dead bool
	}{{"killed", syscall.SIGKILL, false}, {"segfault", syscall.SIGSEGV, false}, {"by itself", syscall.SIGTERM, false}, {"no worker", syscall.SIGKILL, true}} {
		t.Run(with.name, func(t *testing.T) {
			inParallel(t)
			s := stage(t, k.dir, "claude")
			s.atGate(0)
			strike := func() { s.endAgent(with.how) }
			if with.dead {
				k.killed(strike)
			} else {
				strike()
			}
			s.openGate(0)
			s.failedByName()
			awaitIdle(t, s.h)
			again := say(t, s.h, "TOOL bash: echo works again")
			require.NoError(t, again.Err())
			require.Equal(t, 1, last(restarts(t, s.h)), "the restart is counted")

			// While it is idle.
			awaitIdle(t, s.h)
			if with.dead {
				k.killed(strike)
			} else {
				strike()
			}
			next := say(t, s.h, "RECALL")
			require.NoError(t, next.Err())
			require.Contains(t, next.Result.Response, "works again")
			// An exit that is noticed only when the agent is written to is counted by
			// the next health check.
			require.NoError(t, say(t, s.h, "SAY counted").Err())
			require.Equal(t, 2, last(restarts(t, s.h)))
			require.NoError(t, s.h.Close(testContext(t)))
			s.l.closed(t)
			requireSame(t, s.h.ID())
		})
	}
}

// TestKillAgentInATool kills every agent while its tool runs.
func TestKillAgentInATool(t *testing.T) {
	inOwnNamespace(t)
	k := startKillable(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) { endInATool(t, k, a, syscall.SIGKILL) })
}

// TestKillAgentThatTidiesUp: the same with a signal that agents catch. They then exit
// as if all was well, some with status 0; the turn still fails by name.
func TestKillAgentThatTidiesUp(t *testing.T) {
	skip.InShort(t, "TestKillAgentInATool kills agents too")
	withClaude(t)
	inOwnNamespace(t)
	k := startKillable(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) { endInATool(t, k, a, syscall.SIGTERM) })
}

func endInATool(t *testing.T, k *killable, a adapters.Adapter, how syscall.Signal) {
	s := stage(t, k.dir, a.Info().Name)
	s.openGate(0)
	s.inTool()
	s.endAgent(how)
	s.failedByName()
	awaitIdle(t, s.h)
	require.NoError(t, say(t, s.h, "SAY alive").Err())
	require.Equal(t, 1, last(restarts(t, s.h)))
	require.NoError(t, s.h.Close(testContext(t)))
	s.l.closed(t)
	requireSame(t, s.h.ID())
}

// TestKillRunner: the processes below a killed runner end with it, and the turn is
// resumed in the same sandbox.
func TestKillRunner(t *testing.T) {
	inOwnNamespace(t)
	k := startKillable(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		s := stage(t, k.dir, a.Info().Name)
		s.atGate(0)
		tree := s.processes()
		s.endRunner()
		require.Eventually(t, func() bool {
			return !slices.ContainsFunc(tree, func(pid int) bool { return syscall.Kill(pid, 0) == nil })
		}, patience, tick, "nothing of it is left")
		s.goOn()
		res, err := s.h.Wait(testContext(t), s.r)
		require.NoError(t, err)
		require.NoError(t, res.Err())
		require.True(t, s.resumed())
		require.NoError(t, say(t, s.h, "SAY alive").Err())
		require.NoError(t, s.h.Close(testContext(t)))
		heard := s.l.closed(t)
		require.Len(t, payloads[event.EECreating](heard), 1)
		requireSame(t, s.h.ID())
	})
}

// TestKillRunnerThatTakesThePromptBack: Gemini CLI cancels its request when its runner
// ends, and takes the prompt out of its memory if it still can. The turn continues with
// that prompt, and not with the one before.
func TestKillRunnerThatTakesThePromptBack(t *testing.T) {
	skip.InShort(t, "TestKillRunner kills its runner too, and the adapter's own test has a prompt taken back by the program")
	inOwnNamespace(t)
	k := startKillable(t)
	h := open(t, session.Options{Agent: "gemini"})
	require.NoError(t, say(t, h, "SAY the first").Err())
	s := stageIn(t, k.dir, h, func(*staged) string { return "" })
	s.atGate(0)
	file := s.chatWith(s.mark)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var kept []json.RawMessage // what was there before the prompt
	for line := range bytes.Lines(text) {
		var m struct{ ID string }
		require.NoError(t, json.Unmarshal(line, &m))
		if bytes.Contains(line, []byte(s.mark)) {
			break
		}
		if m.ID != "" {
			kept = append(kept, bytes.TrimSpace(line))
		}
	}
	require.NotEmpty(t, kept)
	back, err := json.Marshal(map[string]any{"$set": map[string]any{"messages": kept}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append(append(text, back...), '\n'), 0o600))
	s.endRunner()
	s.goOn()
	res, err := s.h.Wait(testContext(t), s.r)
	require.NoError(t, err)
	require.NoError(t, res.Err())
	require.True(t, s.resumed())
	require.Contains(t, res.Result.Response, "the end")
	require.Contains(t, say(t, s.h, "RECALL").Result.Response, s.gates[2])
	require.NoError(t, s.h.Close(testContext(t)))
	s.l.closed(t)
	requireSame(t, s.h.ID())
}

// chatWith returns the file of Gemini CLI that has a text.
func (s *staged) chatWith(text string) (file string) {
	s.t.Helper()
	require.NoError(s.t, filepath.WalkDir(s.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(filepath.Dir(name)) != "chats" {
			return nil // it may be gone again
		}
		if data, err := os.ReadFile(name); err == nil && bytes.Contains(data, []byte(text)) {
			file = name
		}
		return nil
	}))
	require.NotEmpty(s.t, file)
	return file
}

// TestKillRunnerTooOften: a turn that loses its runner repeatedly is resumed three
// times, and then fails by name.
func TestKillRunnerTooOften(t *testing.T) {
	skip.InShort(t, "TestKillRunner kills runners too")
	inOwnNamespace(t)
	s := stage(t, startKillable(t).dir, "claude")
	s.atGate(0)
	for n := range 3 {
		s.endRunner()
		heard := 0
		at := s.l.until(t, 0, func(ev event.Event) bool {
			if p, ok := ev.Payload.(event.BlockUpsert); ok && p.Block.Subtype == "resumed" {
				heard++
			}
			return heard > n
		})
		// A runner killed before the agent was prompted again would not count.
		s.l.until(t, at, nth[event.BlockDelta](1))
	}
	s.endRunner()
	s.failedByName()
	s.goOn()
	awaitIdle(t, s.h)
	require.NoError(t, say(t, s.h, "SAY alive").Err())
	require.NoError(t, s.h.Close(testContext(t)))
	s.l.closed(t)
	requireSame(t, s.h.ID())
}

// TestKillRunnerForGood: the agent's program is missing when its runner is killed
// during a turn. The turn fails by name, the conversation names what was lost, and the
// session continues once the program is back.
func TestKillRunnerForGood(t *testing.T) {
	skip.InShort(t, "TestKillRunner kills runners too")
	inOwnNamespace(t)
	installed, err := exec.LookPath("claude")
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "claude")
	require.NoError(t, os.Symlink(installed, program))
	s := stage(t, startKillable(t, claude.ProgramVariable+"="+program).dir, "claude")
	said := s.saidAtGate(0)
	require.NoError(t, os.Remove(program))
	s.endRunner()
	res, err := s.h.Wait(testContext(t), s.r)
	require.NoError(t, err)
	require.Equal(t, session.Failed, res.Outcome)
	require.Equal(t, session.TypeAgentMissing, res.Error.Code)
	blocks := fold(events(t, s.h)).Blocks
	at := slices.IndexFunc(blocks, func(b event.Block) bool { return b.ID == said })
	require.GreaterOrEqual(t, at, 0)
	require.Contains(t, blocks[at].Metadata, "lost", "the text is on no disk")
	require.NoError(t, os.Symlink(installed, program))
	s.goOn()
	require.NoError(t, say(t, s.h, "SAY alive").Err())
	require.NoError(t, s.h.Close(testContext(t)))
	s.l.closed(t)
	requireSame(t, s.h.ID())
}

// saidAtGate waits until the model holds back an answer at a gate, and returns the
// block that had started by then.
func (s *staged) saidAtGate(n int) (id string) {
	s.atGate(n)
	s.l.until(s.t, 0, func(ev event.Event) bool {
		p, ok := ev.Payload.(event.BlockDelta)
		id = p.BlockID
		return ok
	})
	return id
}

// TestKillHost kills a host's worker and all processes below it, during turns and
// between them, and removes its data folder. The sessions continue on another host,
// from the archive, and the conversation names the lost blocks.
func TestKillHost(t *testing.T) {
	inOwnNamespace(t)
	first := startKillable(t)
	var inTurn, idle []*staged
	for _, a := range scripted() {
		s := stage(t, first.dir, a.Info().Name)
		inTurn = append(inTurn, s)
		h := open(t, session.Options{Agent: a.Info().Name})
		idle = append(idle, &staged{t: t, dir: first.dir, h: h, l: follow(t, h), mark: "quince"})
		require.NoError(t, say(t, h, "SAY remember the word quince").Err())
		awaitIdle(t, h)
	}
	for _, s := range inTurn {
		s.atGate(0)
	}
	startKillable(t)
	first.lose()
	lost := time.Now()
	for _, s := range inTurn {
		s.goOn()
	}
	var receipts []session.Receipt
	for _, s := range idle {
		r, err := s.h.Send(testContext(t), session.Message{Text: "RECALL"})
		require.NoError(t, err)
		receipts = append(receipts, r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	for i, s := range inTurn {
		res, err := s.h.Wait(ctx, s.r)
		require.NoError(t, err)
		require.NoError(t, res.Err())
		require.True(t, s.resumed(), "the conversation has the block of a resumed turn")
		t.Logf("%s: answered %s after its host was lost", scripted()[i].Info().Name, time.Since(lost).Round(time.Second))
	}
	for i, s := range idle {
		res, err := s.h.Wait(ctx, receipts[i])
		require.NoError(t, err)
		require.NoError(t, res.Err())
		require.Contains(t, res.Result.Response, "quince")
	}
	for _, s := range append(inTurn, idle...) {
		require.NoError(t, s.h.Close(testContext(t)))
		heard := s.l.closed(t)
		require.Equal(t, 2, len(payloads[event.EEReady](heard)))
		requireSame(t, s.h.ID())
	}
	first.start()
}

// TestKillIdleHost: a host that is lost while its sessions are idle is noticed without a
// message: each ends its sandbox, visibly, and continues on another host.
func TestKillIdleHost(t *testing.T) {
	if os.Getenv("SOJOURN_LONG") == "" {
		skip.Unasked(t, "Temporal remembers a worker for five minutes: SOJOURN_LONG=1 runs it, make nightly does")
	}
	inOwnNamespace(t)
	first := startKillable(t)
	h := open(t, session.Options{IdleTimeoutMS: (24 * time.Hour).Milliseconds()})
	l := follow(t, h)
	require.NoError(t, say(t, h, "SAY remember the word quince").Err())
	awaitIdle(t, h)
	startKillable(t)
	first.lose()
	require.Eventually(t, func() bool {
		return inList(t, h.ID()).Runtime.Sandbox == nil
	}, 10*time.Minute, time.Second, "the lost sandbox is given up")
	ended := payloads[event.EETerminated](events(t, h))
	require.Len(t, ended, 1)
	require.Equal(t, session.EvictUnhealthy, ended[0].Environment.Reason)
	require.NotEmpty(t, ended[0].Environment.Message)
	require.Contains(t, say(t, h, "RECALL").Result.Response, "quince")
	require.NoError(t, h.Close(testContext(t)))
	l.closed(t)
	requireSame(t, h.ID())
	first.start()
}

// TestKillHostWhileClosing: a session that is closing does not resume the turn whose
// host is lost. The turn ends once, and the conversation names the lost blocks.
func TestKillHostWhileClosing(t *testing.T) {
	skip.InShort(t, "TestKillHost loses hosts too")
	inOwnNamespace(t)
	k := startKillable(t)
	s := stage(t, k.dir, "claude")
	s.atGate(0)
	startKillable(t)
	k.lose()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	require.NoError(t, s.h.Close(ctx))
	heard := s.l.closed(t)
	require.Len(t, payloads[event.QueryFailed](heard), 1)
	require.Empty(t, payloads[event.QueryCompleted](heard))
	requireSame(t, s.h.ID())
	k.start()
}

// TestKillHostWithAnswersOnIt: S3 is unreachable when a turn ends, and the host is lost
// before S3 is back. The answer is lost, and the conversation says so.
func TestKillHostWithAnswersOnIt(t *testing.T) {
	skip.InShort(t, "TestKillHost loses hosts too")
	inOwnNamespace(t)
	f, url := forward(t, shared.Env["AWS_ENDPOINT_URL_S3"])
	k := startKillable(t, "AWS_ENDPOINT_URL_S3="+url)
	h := open(t, session.Options{Agent: "claude"})
	require.NoError(t, say(t, h, "SAY the first word").Err())
	awaitIdle(t, h)
	f.Stop()
	require.NoError(t, say(t, h, "SAY the second word").Err())
	behind(t, h, true)
	startKillable(t)
	k.lose()
	r, err := h.Send(testContext(t), session.Message{Text: "RECALL"})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	res, err := h.Wait(ctx, r)
	require.NoError(t, err)
	require.NoError(t, res.Err())
	require.Contains(t, res.Result.Response, "the first word")
	require.NotContains(t, res.Result.Response, "the second word")
	require.NoError(t, h.Close(testContext(t)))
	requireSame(t, h.ID())
	blocks := fold(events(t, h)).Blocks
	at := slices.IndexFunc(blocks, func(b event.Block) bool { return b.Content != nil && *b.Content == "the second word" })
	require.Positive(t, at)
	require.JSONEq(t, "true", string(blocks[at].Metadata["lost"]))
	require.NoError(t, f.Start())
	k.start()
}

// TestKillHostOfATerminated: an operator terminates a session whose host is lost too.
// Its last events are written without the host: unanswered messages fail by name, what
// was not archived is marked as lost, and the session can be reopened.
func TestKillHostOfATerminated(t *testing.T) {
	skip.InShort(t, "TestKillHost loses hosts too")
	inOwnNamespace(t)
	k := startKillable(t)
	s := stage(t, k.dir, "claude")
	s.atGate(0)
	waiting, err := s.h.Send(testContext(t), session.Message{Text: "SAY never"})
	require.NoError(t, err)
	startKillable(t)
	k.lose()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	require.NoError(t, spaceOf(t).Temporal.TerminateWorkflow(ctx, s.h.ID(), "", "an operator"))
	again, err := spaceOf(t).Client.Open(ctx, s.h.ID(), session.Options{})
	require.NoError(t, err, "reopening writes the last words")
	for _, r := range []session.Receipt{s.r, waiting} {
		res, err := s.h.Wait(ctx, r)
		require.NoError(t, err)
		require.Equal(t, session.Failed, res.Outcome)
		require.Equal(t, session.TypeTerminated, res.Error.Code)
	}
	said := terminated(t, requireDense(t, s.h))
	require.Contains(t, said, s.r.MessageID)
	require.Contains(t, said, waiting.MessageID)
	requireSame(t, s.h.ID())
	s.goOn()
	require.NoError(t, say(t, again, "SAY alive").Err())
	require.NoError(t, again.Close(ctx))
	requireDense(t, s.h)
	requireSame(t, s.h.ID())
	k.start()
}

// TestKillNoProgress: an agent that hangs is ended after the session's no-progress
// time, and one that prints something is not.
func TestKillNoProgress(t *testing.T) {
	skip.InShort(t, "it waits for the end of patience")
	withClaude(t)
	inOwnNamespace(t)
	startWorker(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		// Longer than a loaded machine keeps a program from printing anything.
		h := open(t, session.Options{Agent: a.Info().Name, NoProgressMS: 25_000})
		l := follow(t, h)
		require.NoError(t, say(t, h, "SLOW 30").Err(), "continuing work is not ended")
		res := say(t, h, "GATE never-"+uuid.NewString())
		require.Equal(t, session.Failed, res.Outcome)
		require.Equal(t, session.TypeNoProgress, res.Error.Code)
		require.NoError(t, say(t, h, "SAY after all").Err())
		require.NoError(t, h.Close(testContext(t)))
		heard := l.closed(t)
		require.Len(t, payloads[event.QueryFailed](heard), 1)
		requireSame(t, h.ID())
	})
}

// TestKillNoProgressOfDyingWorkers: workers that are killed repeatedly, each well
// within the no-progress time, don't delay the end of an agent that hangs.
func TestKillNoProgressOfDyingWorkers(t *testing.T) {
	skip.InShort(t, "it waits for the end of patience")
	inOwnNamespace(t)
	const lives = 15 // of two seconds or more each: several times the no-progress time
	k := startKillable(t)
	h := open(t, session.Options{NoProgressMS: 10_000})
	l := follow(t, h)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	r, err := h.Send(ctx, session.Message{Text: "GATE never-" + uuid.NewString()})
	require.NoError(t, err)
	failed := func() bool { return len(payloads[event.QueryFailed](l.all())) > 0 }
	attempt := int32(0)
	for life := 0; !failed(); life++ {
		require.Less(t, life, lives, "the silence outlives every worker")
		eventually(t, func(c *assert.CollectT) bool {
			a := pendingTurn(ctx, t, h.ID())
			var beat struct{ Seconds int }
			if a == nil || a.GetAttempt() <= attempt || a.GetLastStartedTime() == nil || !a.GetLastHeartbeatTime().AsTime().After(a.GetLastStartedTime().AsTime()) {
				return failed()
			}
			require.NoError(c, converter.GetDefaultDataConverter().FromPayloads(a.GetHeartbeatDetails(), &beat))
			if beat.Seconds >= 2 {
				attempt = a.GetAttempt()
				return true
			}
			return failed()
		}, patience, tick, "an attempt runs")
		if !failed() {
			k.kill()
		}
	}
	res, err := h.Wait(ctx, r)
	require.NoError(t, err)
	require.Equal(t, session.TypeNoProgress, res.Error.Code)
	t.Logf("ended after %d workers", len(k.kills)+1)
	require.NoError(t, say(t, h, "SAY after all").Err())
	require.NoError(t, h.Close(ctx))
	require.Len(t, payloads[event.QueryFailed](l.closed(t)), 1)
	requireSame(t, h.ID())
}

// TestR131DeathIsNoticedBetweenMessages: a health check finds a dead environment
// without a message: it is terminated, the session deactivated, and an event emitted. That of
// the next worker does too, which no message has connected to the agent.
func TestR131DeathIsNoticedBetweenMessages(t *testing.T) {
	inOwnNamespace(t)
	k := startKillable(t, "SOJOURN_HEALTH_INTERVAL=1s")
	unattended := stage(t, k.dir, anyAgent(t))
	unattended.completed()
	k.killed(func() { unattended.endAgent(syscall.SIGKILL) })
	unattended.requireGivenUp()
	for _, died := range []string{"agent", "runner"} {
		t.Run(died, func(t *testing.T) {
			inParallel(t)
			s := stage(t, k.dir, anyAgent(t))
			s.completed()
			if died == "agent" {
				s.endAgent(syscall.SIGKILL)
			} else {
				s.endRunner()
			}
			s.requireGivenUp()
		})
	}
}

// completed lets the agent complete its turn.
func (s *staged) completed() {
	s.t.Helper()
	s.goOn()
	require.NoError(s.t, answeredWell(testContext(s.t), s.t, s.h, s.r).Err())
	awaitIdle(s.t, s.h)
}

// requireGivenUp: the idle session's sandbox is terminated as unhealthy, and the next message
// has another one.
func (s *staged) requireGivenUp() {
	t := s.t
	t.Helper()
	heardUntil(t, s.h, 0, nth[event.EETerminated](1))
	require.Equal(t, []string{"unhealthy"}, reasons(t, s.h))
	require.Eventually(t, func() bool {
		now, err := s.h.Snapshot(testContext(t))
		return err == nil && now.Sandbox == nil && now.Status == session.StatusIdle
	}, patience, tick)
	require.Contains(t, say(t, s.h, "RECALL").Result.Response, "SAY")
	require.NoError(t, s.h.Close(testContext(t)))
	s.l.closed(t)
	requireSame(t, s.h.ID())
}
