package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/test/harness"
	"github.com/sojourn-run/sojourn/test/skip"
)

// daemons returns a shell command that starts processes in every way to outlive their
// parent. Each has the word in its arguments.
func daemons(word string) string {
	sleep := "sleep 1000000." + word
	const quiet = " </dev/null >/dev/null 2>&1 &"
	return strings.Join([]string{
		"setsid " + sleep + quiet,
		"nohup " + sleep + quiet,
		`(setsid sh -c "` + sleep + ` & exec ` + sleep + `"` + quiet + ");",
		"env -i setsid /bin/" + sleep + quiet,
	}, " ") + " echo begun > $TMPDIR/begun; echo begun"
}

// word returns digits that no other process has in its arguments.
func word() string { return fmt.Sprint(uuid.New().ID()) }

// running returns the processes that have one of the words in their arguments or are in
// a session's sandboxes on a host.
func running(t *testing.T, w *worker, sessionID string, words ...string) []harness.Seen {
	t.Helper()
	all, err := harness.AllSeen()
	require.NoError(t, err)
	family, err := harness.Family(filepath.Join(w.dataDir, "sandboxes", sessionID), 0)
	require.NoError(t, err)
	return slices.DeleteFunc(all, func(s harness.Seen) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(s.Cmdline, "1000000."+w) }) &&
			!slices.ContainsFunc(family, func(f harness.Seen) bool { return f.PID == s.PID })
	})
}

// gone waits until a host has nothing of a session: no process, no folder, no socket.
func gone(t *testing.T, w *worker, h *session.Handle, after string, words ...string) {
	t.Helper()
	var left []string
	ok := func() bool {
		left = nil
		for _, p := range running(t, w, h.ID(), words...) {
			left = append(left, p.String())
		}
		folders, err := filepath.Glob(filepath.Join(w.dataDir, "*", h.ID()+"*"))
		require.NoError(t, err)
		left = append(left, folders...)
		return len(left) == 0
	}
	if !waits(ok) {
		require.Fail(t, "something is left", "after %s, session %s: %s", after, h.ID(), strings.Join(left, "\n"))
	}
}

// waits is require.Eventually for callers that print the last state in their own
// message.
func waits(ok func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for !ok() {
		if ctx.Err() != nil {
			return false
		}
		select {
		case <-ctx.Done():
		case <-time.After(tick):
		}
	}
	return true
}

// consumers returns the stream's consumers that read the test's namespace.
func consumers(t *testing.T) []string {
	t.Helper()
	nc, err := stream.Connect(shared.Env["NATS_URL"], accessOf(shared.Env))
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	var names []string
	streams := js.StreamNames(testContext(t))
	for name := range streams.Name() {
		s, err := js.Stream(testContext(t), name)
		require.NoError(t, err)
		list := s.ListConsumers(testContext(t))
		for consumer := range list.Info() {
			subjects := append(consumer.Config.FilterSubjects, consumer.Config.FilterSubject)
			if strings.Contains(strings.Join(subjects, " "), "."+spaceOf(t).Namespace) {
				names = append(names, name+"/"+consumer.Name)
			}
		}
		require.NoError(t, list.Err())
	}
	require.NoError(t, streams.Err())
	return names
}

// files lists the files below a folder, by relative path.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if rel, _ := filepath.Rel(dir, path); rel != "." {
			all = append(all, rel)
		}
		return nil
	}))
	return all
}

// TestNothingLeft starts processes that try to stay, with every agent and both kinds of
// isolation, and ends the sandbox in every possible way.
func TestNothingLeft(t *testing.T) {
	inOwnNamespace(t)
	before := consumers(t)
	// One after the other: the sessions of one must not be put on the other's host.
	for name, plain := range map[string]bool{"namespaces": false, "no namespaces": true} {
		t.Run(name, func(t *testing.T) { nothingLeft(t, plain) })
	}
	require.Equal(t, before, consumers(t), "consumers of the stream")
}

// nothingLeft has one session of each agent end its sandbox by evict, by the idle
// timeout, and by close after a worker was killed during a turn.
func nothingLeft(t *testing.T, plain bool) {
	temp := t.TempDir()
	extra := []string{"TMPDIR=" + temp, "--capacity=4"}
	if plain {
		setting, err := shared.NoNamespaces()
		require.NoError(t, err)
		extra = append(extra, setting, "--unsafe-local")
	}
	w := startWorker(t, extra...)
	require.Equal(t, plain, strings.Contains(w.Said(), "no security boundary"), "%s", w.Said())
	born := slices.DeleteFunc(files(t, w.dataDir), ofAttempt)
	words := map[string][]string{}
	handles := map[string]*session.Handle{}
	for _, a := range scripted() {
		name := a.Info().Name
		words[name] = []string{word(), word(), word()}
		handles[name] = open(t, session.Options{Agent: name})
	}
	everyAgent := func(step string, do func(t *testing.T, h *session.Handle, words []string)) {
		t.Run(step, func(t *testing.T) {
			eachAgent(t, func(t *testing.T, a adapters.Adapter) { do(t, handles[a.Info().Name], words[a.Info().Name]) })
		})
	}
	everyAgent("evict", func(t *testing.T, h *session.Handle, words []string) {
		require.Contains(t, shell(t, h, daemons(words[0])), "begun")
		require.NotEmpty(t, running(t, w, h.ID()), "the scan finds something")
		awaitIdle(t, h)
		require.NoError(t, h.Evict(testContext(t)))
		gone(t, w, h, "evict", words...)
	})
	everyAgent("idle", func(t *testing.T, h *session.Handle, words []string) {
		soon := int64(1)
		// Without daemons, which would keep it: TestR108BackgroundWorkIsNotCut.
		require.Contains(t, shell(t, h, "echo begun"), "begun")
		_, err := h.Configure(testContext(t), session.Configure{IdleTimeoutMS: &soon})
		require.NoError(t, err)
		gone(t, w, h, "idleness", words...)
		late := int64(3_600_000)
		_, err = h.Configure(testContext(t), session.Configure{IdleTimeoutMS: &late})
		require.NoError(t, err)
	})
	everyAgent("crash", func(t *testing.T, h *session.Handle, words []string) {
		_, err := h.Send(testContext(t), session.Message{Text: "TOOL bash: " + daemons(words[2]) + "; sleep 1000000." + words[2]})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return len(withWord(t, words[2])) == 6 }, patience, tick, "they run")
	})
	require.NoError(t, w.Kill())
	w = startWorkerIn(t, w.dataDir, extra...)
	everyAgent("close", func(t *testing.T, h *session.Handle, words []string) {
		require.NoError(t, h.Close(testContext(t)))
		gone(t, w, h, "close", words...)
	})
	require.Empty(t, files(t, temp), "temporary files outside the data folder")
	require.True(t, waits(func() bool { return !slices.ContainsFunc(files(t, w.dataDir), ofAttempt) }), "each attempt's file goes with it")
	require.ElementsMatch(t, born, slices.DeleteFunc(files(t, w.dataDir), func(f string) bool { return furniture(born, f) || ofAttempt(f) }), "files in the data folder")
}

// furniture reports whether a file is one of the host's own folders, which are created
// empty when they are first needed.
func furniture(born []string, file string) bool {
	return !slices.Contains(born, file) && slices.Contains([]string{"s", "attempts", "bookmarks", "sandboxes"}, file)
}

// ofAttempt reports whether a file is an activity's that runs at the moment: the worker
// looks for terminated sessions each minute.
func ofAttempt(file string) bool { return filepath.Dir(file) == "attempts" }

func withWord(t *testing.T, word string) []harness.Seen {
	t.Helper()
	all, err := harness.AllSeen()
	require.NoError(t, err)
	return slices.DeleteFunc(all, func(s harness.Seen) bool { return s.Comm != "sleep" || !strings.HasSuffix(s.Cmdline, "1000000."+word) })
}

// TestAgentCantUseItsRunner: an agent that has everything about its runner except the
// token can't use it.
func TestAgentCantUseItsRunner(t *testing.T) {
	skip.InShort(t, "of what is kept from an agent, TestAgentHasNoKeyToTheHouse and TestAgentSeesNoFolderOfTheHouse")
	inOwnNamespace(t)
	w, h, planted := isolated(t)
	socket, err := runner.SocketPath(w.dataDir, own(t, w, planted))
	require.NoError(t, err)
	status := running(t, w, own(t, w, planted))
	require.NotEmpty(t, status)
	refuses(t, h, shared.Bin, socket)
	for _, p := range status {
		if !strings.HasPrefix(p.Cmdline, "sojourn-runner") {
			continue
		}
		out := shell(t, h, fmt.Sprintf("cat /proc/%d/environ /proc/%d/mem 2>/dev/null | wc -c; kill -9 %d 2>&1; echo tried", p.PID, p.PID, p.PID))
		require.Contains(t, out, "0\n", "its environment and memory")
		require.Contains(t, strings.ToLower(out), "no such process")
	}
	// The first process in its view is the runner's too.
	out := shell(t, h, "cat /proc/1/environ 2>/dev/null | wc -c; head -c1 /proc/1/mem 2>/dev/null | wc -c; ls -l /proc/1/fd 2>/dev/null | grep -c -e '->'; kill -9 1; kill -TERM 1; kill -STOP 1; echo tried")
	require.Equal(t, "0\n0\n0\ntried", strings.TrimSpace(out))
	require.Equal(t, "still there", say(t, h, "SAY still there").Result.Response)
	require.Equal(t, 0, last(restarts(t, h)))
	require.NoError(t, h.Close(testContext(t)))
}

// TestAgentCantUseItsRunnerUnshut: without namespaces the socket is visible, but
// useless without the token, which no process of the host shows.
func TestAgentCantUseItsRunnerUnshut(t *testing.T) {
	skip.InShort(t, "of what is kept from an agent, TestAgentHasNoKeyToTheHouse and TestAgentSeesNoFolderOfTheHouse")
	inOwnNamespace(t)
	setting, err := shared.NoNamespaces()
	require.NoError(t, err)
	w := startWorker(t, setting, "--unsafe-local")
	h := open(t, session.Options{})
	require.Equal(t, "here", strings.TrimSpace(shell(t, h, "echo here")))
	socket, err := runner.SocketPath(w.dataDir, sandboxes(t, w)[0])
	require.NoError(t, err)
	refuses(t, h, shared.Bin, socket)
	for _, p := range running(t, w, h.ID()) {
		out := shell(t, h, fmt.Sprintf("{ tr '\\0' '\\n' </proc/%d/environ; } 2>/dev/null | grep -cE '^(TEMPORAL|NATS|AWS)_'; echo counted", p.PID))
		require.Contains(t, []string{"0\ncounted", "counted"}, strings.TrimSpace(out), "%v", p)
	}
	require.Equal(t, "still there", say(t, h, "SAY still there").Result.Response)
	require.NoError(t, h.Close(testContext(t)))
}

// refuses has the agent try every command of its runner on its own socket, without a
// token and with a guess.
func refuses(t *testing.T, h *session.Handle, bin, socket string) {
	t.Helper()
	program := filepath.Join(bin, "sojourn-runner")
	for _, command := range []string{"attach --from 0", "status", "stop", "input --id stolen", "control signal KILL", "control lease 1ms", "control trim 999999", "control close-input"} {
		name, rest, _ := strings.Cut(command, " ")
		line := fmt.Sprintf("%s %s --socket %s --epoch 99 %s", program, name, socket, rest)
		for _, token := range []string{"", "00000000000000000000000000000000"} {
			out := shell(t, h, "printf '"+token+"\\nstolen\\n' | "+line+"; echo code $?")
			// A bridge passes the refusal on, and succeeds itself.
			require.True(t, name == "attach" || !strings.Contains(out, "code 0"), "%s: %s", line, out)
			require.NotContains(t, out, `"state"`, "%s", line)
			require.NotContains(t, out, `"record"`, "%s", line)
		}
	}
}
