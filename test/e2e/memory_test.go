package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/jsonl"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/harness"
	"github.com/sojourn-run/sojourn/test/skip"
)

// flood is how much an agent writes in a test of memory.
type flood struct{ transcript, line int }

// floodSize returns sizes that are far above all memory bounds. With SOJOURN_FLOOD=full
// they are the largest ever tested: 2 GB of transcript and lines of 1 GB.
func floodSize() flood {
	if os.Getenv("SOJOURN_FLOOD") == "full" {
		return flood{transcript: 2 << 30, line: 1 << 30}
	}
	return flood{transcript: 300 << 20, line: 400 << 20}
}

// sessionMemory is the default memory bound of a session, for a worker and for its
// runner.
const sessionMemory = 64 << 20

// TestMemoryIsBounded has an agent's tool append to the agent's own transcript and
// write a huge line there and on the agent's standard output. Neither the worker nor
// the runner may have any of it whole in memory.
func TestMemoryIsBounded(t *testing.T) {
	skip.InShort(t, "it says hundreds of megabytes")
	withClaude(t)
	inOwnNamespace(t)
	// Without the race detector, which multiplies the memory.
	w := startWorker(t, "SOJOURN_WORKER_BIN="+filepath.Join(shared.Bin, "sojourn-worker"))
	h := open(t, session.Options{})
	require.NoError(t, say(t, h, "SAY hello").Err())
	idle := peaks(t, w)
	size := floodSize()

	steps := []struct{ name, command string }{
		{"a transcript", appendLines(size.transcript)},
		{"a line of a transcript", longTranscriptLine(size.line)},
		{"a line of output", longOutputLine(size.line)},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			require.NoError(t, sayPatiently(t, h, "TOOL bash: "+s.command).Err())
			now := peaks(t, w)
			t.Logf("worker %s (idle %s), runner %s (idle %s)", mb(now.worker), mb(idle.worker), mb(now.runner), mb(idle.runner))
			require.LessOrEqual(t, now.worker-idle.worker, sessionMemory, "the worker's memory")
			require.LessOrEqual(t, now.runner-idle.runner, sessionMemory, "the runner's memory")
		})
	}
	requireCut(t, h, size.line)
	requireArchived(t, h, int64(size.transcript/1000)*900+int64(size.line))
	require.NoError(t, say(t, h, "SAY still here").Err())
}

// sayPatiently is say with a longer timeout, for turns that move gigabytes.
func sayPatiently(t *testing.T, h *session.Handle, text string) session.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	t.Cleanup(cancel)
	r, err := h.Send(ctx, session.Message{Text: text})
	require.NoError(t, err)
	res, err := h.Wait(ctx, r)
	require.NoError(t, err)
	return res
}

const serverTranscript = `"$HOME"/.claude/projects/*/*.jsonl`

// appendLines returns a script that appends valid lines of 1 KiB to the agent's own
// transcript.
func appendLines(bytes int) string {
	line := `{\"type\":\"user\",\"uuid\":\"%08x-0000-4000-8000-000000000000\",\"timestamp\":\"2026-01-01T00:00:00Z\",` +
		`\"message\":{\"role\":\"user\",\"content\":\"%s\"}}\n`
	return fmt.Sprintf(`awk 'BEGIN { p = sprintf("%%850s", ""); for (i = 0; i < %d; i++) printf "%s", i, p }' >> %s`,
		bytes/1000, line, serverTranscript)
}

// longTranscriptLine returns a script that appends one line to the agent's own
// transcript.
func longTranscriptLine(bytes int) string {
	return fmt.Sprintf(`(printf '{"type":"user","uuid":"f","message":{"role":"user","content":"'; `+
		`head -c %d /dev/zero | tr '\0' x; printf '"}}\n') >> %s`, bytes, serverTranscript)
}

// longOutputLine returns a script that writes one line to the agent's standard output.
func longOutputLine(bytes int) string {
	return fmt.Sprintf(`(echo; head -c %d /dev/zero | tr '\0' x; echo) > /proc/$PPID/fd/1`, bytes)
}

// requireCut checks for error events that name the line of output, with its length. If
// the agent wrote lines of its own in between, there are several events.
func requireCut(t *testing.T, h *session.Handle, size int) {
	t.Helper()
	named := regexp.MustCompile(`cut: (\d+) bytes, sha256 [0-9a-f]{64}`)
	bytes := 0
	for _, ev := range events(t, h) {
		p, ok := ev.Payload.(event.Error)
		if !ok || p.Code != "cut" {
			continue
		}
		n, err := strconv.Atoi(named.FindStringSubmatch(p.Message)[1])
		require.NoError(t, err)
		bytes += n
	}
	require.GreaterOrEqual(t, bytes, size-jsonl.DefaultMaxLine)
}

// requireArchived waits until the archive has the agent's transcript, of which the sync
// at the end of a turn may have left a part to the next one.
func requireArchived(t *testing.T, h *session.Handle, least int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		infos, err := spaceOf(t).Archive.Transcripts(t.Context(), h.ID())
		return err == nil && len(infos) > 0 && infos[0].ID == event.Main && infos[0].Size >= least
	}, 10*time.Minute, tick, "the whole transcript is archived")
}

// memory is the peak memory of the processes, in bytes.
type memory struct{ worker, runner int }

func peaks(t *testing.T, w *worker) memory {
	t.Helper()
	m := memory{worker: peak(t, w.PID())}
	pids, err := harness.Agents(w.dataDir)
	require.NoError(t, err)
	for _, pid := range pids {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err == nil && filepath.Base(exe) == "sojourn-runner" {
			m.runner = max(m.runner, peak(t, pid))
		}
	}
	require.Positive(t, m.runner, "no runner was found")
	return m
}

// peak returns the peak resident memory of a process.
func peak(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.Atoi(strings.Fields(kb)[0])
			require.NoError(t, err)
			return n << 10
		}
	}
	t.Fatalf("process %d has no VmHWM", pid)
	return 0
}

func mb(bytes int) string { return fmt.Sprintf("%d MB", bytes>>20) }
