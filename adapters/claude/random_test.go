package claude

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/reducer/loss"
	"github.com/sojourn-run/sojourn/test/parity"
	"github.com/sojourn-run/sojourn/test/skip"
)

// Variables that request more than a normal run does.
const (
	randomCount  = "SOJOURN_RANDOM"        // how many scenarios; without it none
	randomSeed   = "SOJOURN_RANDOM_SEED"   // the first one's seed; default: by the clock
	randomMode   = "SOJOURN_RANDOM_MODE"   // only this mode
	randomKeep   = "SOJOURN_RANDOM_KEEP"   // folder for the records and files of what differs
	randomGentle = "SOJOURN_RANDOM_GENTLE" // leave out what is known to differ
)

// Whatever the real agent gets, at whatever time, in whatever mode: what it
// streamed is what it wrote.
func TestRandomParity(t *testing.T) {
	t.Parallel()
	count, err := strconv.Atoi(os.Getenv(randomCount))
	if err != nil {
		skip.Unasked(t, "a search for new faults, not a proof of the old: "+randomCount+"=40 runs it, make nightly does")
	}
	gentle := os.Getenv(randomGentle) != ""
	seed := uint64(time.Now().UnixNano()) % 1_000_000
	if n, err := strconv.ParseUint(os.Getenv(randomSeed), 10, 64); err == nil {
		seed = n
	}
	t.Logf("%s=%d %s=%d repeats this", randomSeed, seed, randomCount, count)
	for i := range count {
		at := seed + uint64(i)
		r := rand.New(rand.NewPCG(at, 1))
		m := modes[r.IntN(len(modes))]
		if i%3 == 0 {
			m = modes[r.IntN(2)] // what sessions use
		}
		if only := os.Getenv(randomMode); only != "" && m.name != only {
			continue
		}
		t.Run(fmt.Sprintf("%s/%d", m.name, at), func(t *testing.T) {
			t.Parallel()
			x := realAgent(t)
			p := makePlan(at, m, x.launch.Workspace, gentle)
			s := &scenario{exchange: x, plan: p}
			s.play()
			s.compare()
		})
	}
}

// scenario plays a plan against the real agent.
type scenario struct {
	*exchange
	plan plan
	run  planRun
	// asked counts permission requests; sent, what was written to the agent.
	asked int
	sent  int
	// signalled: the process was sent a signal to end at once.
	signalled bool
}

func (s *scenario) play() {
	for i, r := range s.plan.runs {
		s.run, s.asked, s.sent, s.signalled = r, 0, 0, false
		s.launch.Resume = i > 0 && s.onDisk()
		s.begin()
		for j, a := range r.acts {
			if s.plan.mode.oneShot && j == 0 {
				continue
			}
			s.act(a)
		}
		s.finish()
	}
}

func (s *scenario) onDisk() bool {
	found, err := filepath.Glob(filepath.Join(s.launch.Home, configDir, "projects", "*", s.launch.NativeID+".jsonl"))
	require.NoError(s.t, err)
	return len(found) > 0
}

func (s *scenario) begin() {
	m := s.plan.mode
	s.install(adapters.Profile{})
	c, err := New().Command(s.launch)
	require.NoError(s.t, err)
	argv := s.argv(c.Argv)
	if m.oneShot {
		text := strings.ReplaceAll(s.run.acts[0].text, "\x00", "")
		if len(text) > 100_000 {
			text = text[:100_000]
		}
		argv = append(argv, "--", text)
		s.record(event.DirIn, adapters.PromptLine(text))
		s.sent++
	}
	s.cmd = exec.CommandContext(s.t.Context(), argv[0], argv[1:]...)
	s.cmd.Dir, s.cmd.Env = c.Dir, s.env
	for name, value := range c.Env {
		if name != "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS" || m.states {
			s.cmd.Env = append(s.cmd.Env, name+"="+value)
		}
	}
	if !m.oneShot {
		s.stdin, err = s.cmd.StdinPipe()
		require.NoError(s.t, err)
	}
	stdout, err := s.cmd.StdoutPipe()
	require.NoError(s.t, err)
	stderr, err := s.cmd.StderrPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, s.cmd.Start())
	s.read(stdout, event.DirOut)
	s.read(stderr, event.DirErr)
	if m.intro {
		s.put("init", adapters.Initialize{})
	}
}

// argv returns the session's command line with the mode's flags.
func (s *scenario) argv(session []string) []string {
	m := s.plan.mode
	var out []string
	for i := 0; i < len(session); i++ {
		switch a := session[i]; {
		case a == "--replay-user-messages" && !m.replay, a == "--include-partial-messages" && !m.partial:
		case a == "--input-format" && m.oneShot:
			i++
		case a == "--dangerously-skip-permissions" && m.ask:
			out = append(out, "--allow-dangerously-skip-permissions")
		default:
			out = append(out, a)
		}
	}
	return out
}

// put writes to an agent that may have ended.
func (s *scenario) put(id string, in adapters.Input) {
	line, err := encode(s.launch, id, in)
	require.NoError(s.t, err)
	s.record(event.DirIn, string(line))
	if s.stdin != nil {
		_, _ = s.stdin.Write(append(line, '\n')) // it may have ended
	}
}

func (s *scenario) act(a act) {
	if a.after > 0 {
		s.pause(a.after)
	} else {
		s.quiet()
	}
	id := fmt.Sprintf("r%d", len(s.records))
	switch a.kind {
	case "interrupt":
		s.put(id, adapters.Interrupt{})
	case "model":
		s.put(id, adapters.SetModel{Model: a.text})
	case "mode":
		line := fmt.Sprintf(`{"type":"control_request","request_id":%q,"request":{"subtype":"set_permission_mode","mode":%q}}`, id, a.text)
		s.record(event.DirIn, line)
		_, _ = io.WriteString(s.stdin, line+"\n")
	case "signal":
		s.signal(a.text)
	default:
		s.sent++
		s.put(id, s.prompt(a))
	}
}

const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func (s *scenario) prompt(a act) adapters.Prompt {
	p := adapters.Prompt{Text: a.text}
	if s.plan.mode.uuids {
		p.MessageID = uuid.NewString()
	}
	switch a.kind {
	case "image":
		p.Parts = []event.Part{{Type: "image", MediaType: "image/png", Data: pixel}}
	case "parts":
		p.Parts = []event.Part{{Type: "text", Text: a.text}}
		p.Text = "first part"
	}
	return p
}

func (s *scenario) signal(number string) {
	s.record(event.DirSig, number)
	s.signalled = true
	n, err := strconv.Atoi(number)
	require.NoError(s.t, err)
	_ = s.cmd.Process.Signal(syscall.Signal(n)) // it may have ended
}

// pause lets time pass, answering what the agent asks.
func (s *scenario) pause(d time.Duration) {
	until := time.After(d)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-until:
			return
		case e := <-s.seen:
			s.answer(e)
		case <-tick.C:
		}
	}
}

func (s *scenario) answer(e event.Event) {
	asked, ok := e.Payload.(event.PermissionRequested)
	if !ok {
		return
	}
	how := s.run.answers[s.asked%len(s.run.answers)]
	s.asked++
	switch how {
	case "allow", "deny":
		s.put("answer", adapters.Answer{RequestID: asked.RequestID, Allow: how == "allow", Message: "not now", Input: asked.Input})
	case "interrupt":
		s.put(fmt.Sprintf("r%d", len(s.records)), adapters.Interrupt{})
	}
}

// quiet waits until the agent has nothing to send: a result has arrived for what
// was sent, and nothing after it for a while. It may be wrong; the comparison
// must hold all the same.
func (s *scenario) quiet() {
	if s.sent == 0 {
		return
	}
	for range 40 {
		s.pause(250 * time.Millisecond)
		s.mu.Lock()
		last, n := s.records[len(s.records)-1], len(s.records)
		ended := false
		for i := max(0, n-4); i < n; i++ {
			r := s.records[i]
			ended = ended || r.Dir == event.DirOut && (strings.Contains(r.Line, `"type":"result"`) || strings.Contains(r.Line, `"state":"idle"`))
		}
		s.mu.Unlock()
		if ended && time.Since(last.TS) > 250*time.Millisecond && last.Dir != event.DirIn {
			return
		}
	}
}

// finish lets the process end, and keeps what its death lost.
func (s *scenario) finish() {
	if s.run.end == "close" || s.run.end == "2" {
		s.quiet()
	}
	if s.stdin != nil {
		_ = s.stdin.Close() // it may have ended
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		s.readers.Wait()
		_ = s.cmd.Wait() // how it ended is in its state
	}()
	limit := time.After(25 * time.Second)
	for ended := false; !ended; {
		select {
		case <-gone:
			ended = true
		case e := <-s.seen:
			s.answer(e)
		case <-limit:
			s.t.Logf("the agent did not end by itself\n%s", s.plan)
			_ = s.cmd.Process.Kill() // it may have ended
			limit = nil
		}
	}
	s.stdin = nil
	how := "exit " + strconv.Itoa(s.cmd.ProcessState.ExitCode())
	if s.cmd.ProcessState.ExitCode() < 0 {
		how = "signal " + s.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal().String()
	}
	s.record(event.DirSig, how)
	if how != "exit 0" || s.signalled {
		s.keepLost()
	}
}

// keepLost turns what a death has lost into server blocks. Messages without a given
// id have another one on disk.
func (s *scenario) keepLost() {
	restored := reducer.State{}
	if s.onDisk() {
		restored = s.restored()
	}
	contents := map[string]int{}
	for _, b := range restored.Blocks {
		if b.Type == event.BlockUserMessage {
			contents[*b.Content]++
		}
	}
	for _, e := range loss.Difference(s.state(), restored, loss.Options{At: time.Now()}) {
		p, ok := e.Payload.(event.BlockUpsert)
		ungiven := ok && p.Block.Type == event.BlockUserMessage && strings.HasPrefix(p.Block.ID, UngivenPrefix)
		if ungiven && contents[*p.Block.Content] > 0 {
			contents[*p.Block.Content]--
			continue
		}
		s.fold.Add(e)
	}
}

func (s *scenario) compare() {
	if !s.onDisk() {
		for _, b := range withoutUserMessages(s.state().Blocks) {
			s.t.Errorf("nothing is on disk, but live has %s", toJSON(s.t, b))
		}
		s.keep()
		return
	}
	diffs, err := parity.Compare(parity.Native(s.state()), s.restored(), s.plan.mode.rules())
	require.NoError(s.t, err)
	for i, d := range diffs {
		if i < 4 {
			s.t.Error(clip(d.String()))
		}
	}
	s.keep()
}

func withoutUserMessages(blocks []event.Block) []event.Block {
	var out []event.Block
	for _, b := range blocks {
		if b.Type != event.BlockUserMessage && string(b.Metadata["lost"]) != "true" && b.Type != event.BlockError && b.Type != event.BlockSystem {
			out = append(out, b)
		}
	}
	return out
}

func clip(s string) string {
	var lines []string
	for _, l := range strings.Split(s, "\n") {
		lines = append(lines, l[:min(len(l), 600)])
	}
	return strings.Join(lines, "\n")
}

// keep writes the data that are needed to read a failure.
func (s *scenario) keep() {
	dir := os.Getenv(randomKeep)
	if !s.t.Failed() {
		return
	}
	s.t.Log(s.plan)
	if dir == "" {
		return
	}
	dir = filepath.Join(dir, strings.ReplaceAll(s.t.Name(), "/", "_"))
	require.NoError(s.t, os.RemoveAll(dir))
	require.NoError(s.t, os.CopyFS(filepath.Join(dir, configDir, "projects"), os.DirFS(filepath.Join(s.launch.Home, configDir, "projects"))))
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	for _, r := range s.records {
		require.NoError(s.t, enc.Encode(map[string]any{"ts": r.TS, "dir": r.Dir, "line": r.Line}))
	}
	require.NoError(s.t, os.WriteFile(filepath.Join(dir, "timed.jsonl"), out.Bytes(), 0o600))
	require.NoError(s.t, os.WriteFile(filepath.Join(dir, "plan.txt"), []byte(s.plan.String()), 0o600))
	require.NoError(s.t, os.WriteFile(filepath.Join(dir, "live.json"), []byte(pretty(s.t, s.state())), 0o600))
	require.NoError(s.t, os.WriteFile(filepath.Join(dir, "restored.json"), []byte(pretty(s.t, s.restored())), 0o600))
}
