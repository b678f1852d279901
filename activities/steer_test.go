package activities

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/claude"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/steering"
	"github.com/sojourn-run/sojourn/turn"
)

// heard is a translator that keeps what it was asked to encode.
type heard struct {
	adapters.Translator
	inputs []adapters.Input
}

func (h *heard) Encode(_ string, in adapters.Input) ([]adapters.Message, error) {
	h.inputs = append(h.inputs, in)
	return nil, nil
}

// attemptWith returns an attempt in the middle of a turn, with an agent that takes everything.
func attemptWith(b *bench, h *heard) *attempt {
	a := &attempt{
		host: b.host, machine: turn.NewMachine(turn.Config{}, ""), dialogue: adapters.NewDialogue(h, nil),
		agent: &host.Agent{}, checkpoint: host.Checkpoint{Model: "now", Permission: "ask", Open: &host.Execution{}},
	}
	a.in.Sandbox.ID = b.sandbox.ID
	return a
}

// A message into a running turn has the turn's model and permission, which may have
// changed since the agent was launched.
func TestSteeredWithTheTurnsModel(t *testing.T) {
	t.Parallel()
	h := &heard{}
	a := attemptWith(withSandbox(t), h)
	require.NoError(t, a.steer(t.Context(), steering.Message{ID: "m2", Text: "words 2"}))
	require.Equal(t, []adapters.Input{adapters.Prompt{
		MessageID: "m2", Text: "words 2", Model: "now", Permission: adapters.PermissionAsk, Steer: true,
	}}, h.inputs)
}

// Options that change while a process's opening is unread wait for it: what the process can
// take is not known before. Anything else is taken at once.
func TestOptionsWaitForTheOpening(t *testing.T) {
	t.Parallel()
	h := &heard{}
	a := attemptWith(withSandbox(t), h)
	a.held = true
	options := control{in: contract.ControlInput{ID: "c1", Options: &contract.Options{Permission: permission.Deny}}, reply: make(chan reply, 1)}
	nothing := control{in: contract.ControlInput{ID: "c2"}, reply: make(chan reply, 1)}
	a.takeControl(t.Context(), options)
	a.takeControl(t.Context(), nothing)
	a.takePostponed(t.Context())
	require.Empty(t, options.reply)
	require.Empty(t, h.inputs)
	require.NoError(t, (<-nothing.reply).err)
	a.held = false
	a.takePostponed(t.Context())
	require.NoError(t, (<-options.reply).err)
	require.Len(t, h.inputs, 1)
	a.takePostponed(t.Context())
	require.Len(t, h.inputs, 1, "once")
}

// An attempt that follows another reads first that the agent has its prompt, and steers it
// then. The first attempt of a turn whose agent still starts refuses.
func TestSteerWaitsForWhatAnEarlierAttemptSent(t *testing.T) {
	t.Parallel()
	h := &heard{}
	a := attemptWith(withSandbox(t), h)
	a.adapter, a.machine.Steers = claude.New(), true
	steer := control{in: contract.ControlInput{ID: "c1", Steer: &session.Message{ID: "m2", Text: "words 2"}}, reply: make(chan reply, 1)}
	a.takeControl(t.Context(), steer)
	require.ErrorIs(t, (<-steer.reply).err, errNotNow)

	a.follows = true
	a.takeControl(t.Context(), steer)
	a.takePostponed(t.Context())
	require.Empty(t, steer.reply)
	a.machine.Prompt = &turn.Span{}
	a.takePostponed(t.Context())
	require.NoError(t, (<-steer.reply).err)
	require.Len(t, h.inputs, 1)
}

// A message into a running turn that can't be saved is not sent, and the turn does not wait
// until the agent takes it.
func TestSteerThatCannotBeSaved(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	b.agent.Permission = "ask"
	in := b.ask(1, "words 1 ask")
	in.NoProgressMS = 60_000
	done := b.aside(t.Context(), 1, in)
	asked := b.until(b.last, is[event.PermissionRequested]).Payload.(event.PermissionRequested)

	folder := filepath.Dir(b.host.Checkpoints.Path(b.sandbox.ID))
	require.NoError(t, os.Rename(folder, folder+"-away"))
	require.NoError(t, os.WriteFile(folder, nil, 0o600))
	_, err := b.host.SendControl(t.Context(), contract.ControlInput{SessionID: b.agent.SessionID, ExecutionID: "x1", ID: "c1", Steer: &session.Message{ID: "m2", Text: "words 2"}})
	require.Error(t, err)
	require.NoError(t, os.Remove(folder))
	require.NoError(t, os.Rename(folder+"-away", folder))

	require.True(t, b.control(contract.ControlInput{ExecutionID: "x1", ID: "k1", Answer: &session.RespondRequest{RequestID: asked.RequestID, Allow: true}}).Handed)
	end := <-done
	require.NoError(t, end.err)
	require.Equal(t, session.Completed, end.out.Result.Outcome)
	require.Empty(t, end.out.Result.MessageIDs)
	require.Zero(t, countLines(b.heard(), `"words 2"`))
}
