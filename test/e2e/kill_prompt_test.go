package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters/codex"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/executable"
	"github.com/sojourn-run/sojourn/test/skip"
)

// TestKillBetweenTheLinesOfAPrompt: Codex is killed after it has written a prompt for its
// model and before it has written which message that is, by itself or with its runner. The
// model has the message once, and so has the conversation, live and restored.
func TestKillBetweenTheLinesOfAPrompt(t *testing.T) {
	skip.InShort(t, "TestCompleteIsWhatTheProgramWrites has the real program")
	inOwnNamespace(t)
	k := startKillable(t, codex.ProgramVariable+"="+cutProgram(t))
	for _, part := range []string{"agent", "runner"} {
		for name, begin := range map[string]func(*testing.T, *killable, string) *steered{"prompt": promptCut, "steered": steerCut} {
			t.Run(part+"/"+name, func(t *testing.T) {
				inParallel(t)
				s := begin(t, k, cutWord+uuid.NewString()[:8])
				require.Eventually(t, func() bool {
					found, err := filepath.Glob(filepath.Join(k.dir, "sandboxes", s.h.ID()+"-*", "home", "cut"))
					return err == nil && len(found) == 1
				}, patience, tick, "the program is killed behind the message")
				if part == "agent" {
					s.endAgent(syscall.SIGKILL)
				} else {
					s.endRunner()
				}
				s.goOn()
				first, next := s.ends()
				require.Equal(t, first.ExecutionID, next.ExecutionID, "the message is the turn's that its agent had it in")
				require.Equal(t, part == "agent", first.Outcome == session.Failed, "%v", first.Err())
				require.Equal(t, part == "agent", next.Outcome == session.Failed, "%v", next.Err())
				live, err := spaceOf(t).Client.Show(testContext(t), s.h.ID(), session.FromStream)
				require.NoError(t, err)
				shown := 0
				for _, b := range live.State.Blocks {
					if b.Type == event.BlockUserMessage && strings.Contains(*b.Content, s.word) {
						shown++
						require.Equal(t, s.next.MessageID, b.ID)
						require.NotEqual(t, event.SourceServer, b.Source, "it is the agent's own")
					}
				}
				require.Equal(t, 1, shown)
				s.settled()
			})
		}
	}
}

// promptCut sends a message that begins a turn.
func promptCut(t *testing.T, k *killable, word string) *steered {
	h := open(t, session.Options{Agent: codex.Name})
	s := &steered{staged: &staged{t: t, dir: k.dir, h: h, l: follow(t, h), mark: word}, word: word}
	for i := range s.gates {
		s.gates[i] = "kill-" + uuid.NewString()
	}
	r, err := h.Send(testContext(t), session.Message{Text: s.text()})
	require.NoError(t, err)
	s.r, s.next = r, r
	return s
}

// steerCut sends one to a working agent, which then takes it. As in steerInTool another
// session is tried if the offer is not answered in time.
func steerCut(t *testing.T, k *killable, word string) *steered {
	for try := 1; ; try++ {
		s := &steered{staged: stage(t, k.dir, codex.Name), word: word}
		s.openGate(0)
		letGo := s.inTool()
		var err error
		s.next, err = s.h.Send(testContext(t), session.Message{Text: s.text(), WhenBusy: session.BusySteer})
		require.NoError(t, err)
		if s.next.Handling == session.HandlingHanded {
			letGo()
			return s
		}
		require.Less(t, try, 3, "the agent is never asked in time")
		require.NoError(t, s.h.Close(testContext(t)))
	}
}

// cutWord is in the messages behind which Codex is killed.
const cutWord = "cut-"

// cutProgram returns a program that runs Codex and kills it when it has sent the item of such
// a message, of which nothing is passed on. The agent's home has the rollout up to
// the line before that item only: while Codex runs its files are elsewhere.
func cutProgram(t *testing.T) string {
	installed, err := exec.LookPath("codex")
	require.NoError(t, err)
	program, err := codex.New().Locate(func(string) string { return installed })
	require.NoError(t, err)
	wrapper := filepath.Join(t.TempDir(), "codex")
	executable.Write(t, wrapper, []byte(`#!/bin/bash
[ -e "$HOME/cut" ] && exec '`+program+`' "$@"
mkdir -p "$HOME/elsewhere" && cp -r "$CODEX_HOME/." "$HOME/elsewhere" && mkfifo "$HOME/out" || exit
CODEX_HOME="$HOME/elsewhere" '`+program+`' "$@" <&0 >"$HOME/out" &
while IFS= read -r line; do
	case $line in
	*'"userMessage"'*`+cutWord+`*)
		kill -KILL $!
		wait $!
		cd "$HOME/elsewhere" && for file in sessions/*/*/*/rollout-*; do
			last=$(grep -n '"user.text"' "$file" | grep `+cutWord+` | cut -d : -f 1)
			head -n "$last" "$file" >"$CODEX_HOME/$file"
		done
		touch "$HOME/cut"
		exec sleep 600
		;;
	esac
	printf '%s\n' "$line"
done <"$HOME/out"
`))
	return wrapper
}
