package codex

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/parity"
	"github.com/sojourn-run/sojourn/test/replay"
)

// told is what a translator told of its records.
type told struct {
	t  testing.TB
	tr adapters.Translator
	reducer.State
	refused []string
	idle    []event.SessionIdle
	own     []string
}

func (d *told) step(dir event.Dir, line string) {
	for _, e := range step(d.tr, dir, line) {
		d.State = reducer.Reduce(d.State, e)
		switch p := e.Payload.(type) {
		case event.Error:
			d.refused = append(d.refused, p.MessageID)
		case event.SessionIdle:
			d.idle = append(d.idle, p)
		case event.MessageOwnTurn:
			d.own = append(d.own, p.MessageID)
		}
	}
}

// sends writes a prompt to the program, and returns the id that its response has.
func (d *told) sends(in adapters.Prompt) string {
	d.t.Helper()
	m := encode(d.t, d.tr, "prompt-"+in.MessageID, in)[0]
	d.step(event.DirIn, string(m.Data))
	var l message
	require.NoError(d.t, decodeObject(m.Data, &l))
	return key(l.ID)
}

func (d *told) accepts(id, turn string) {
	d.step(event.DirOut, fmt.Sprintf(`{"id":%q,"result":{"turn":{"id":%q}}}`, id, turn))
}

func (d *told) refuses(id string) {
	d.step(event.DirOut, fmt.Sprintf(`{"id":%q,"error":{"code":-32001,"message":"overloaded"}}`, id))
}

func (d *told) completes(turn string) {
	d.step(event.DirOut, fmt.Sprintf(`{"method":"turn/completed","params":{"threadId":"main","turn":{"id":%q,"status":"completed"}}}`, turn))
}

// A steered message that the program refuses is named, shown nowhere, and no failure of
// the turn, whenever its refusal arrives.
func TestSteeredAndRefused(t *testing.T) {
	t.Parallel()
	steered := adapters.Prompt{MessageID: "m2", Text: "more", Steer: true}
	for name, c := range map[string]struct {
		play func(d *told)
		// idle is how often the program is idle: it is again when what it was sent last is
		// refused.
		idle int
	}{
		"while the turn runs": {func(d *told) {
			d.refuses(d.sends(steered))
			require.Empty(t, d.idle)
			d.completes("t1")
		}, 1},
		"when the turn has ended": {func(d *told) {
			id := d.sends(steered)
			d.completes("t1")
			require.Empty(t, d.idle, "it may begin with what it was sent")
			d.refuses(id)
		}, 1},
		"written behind the turn's end": {func(d *told) {
			d.completes("t1")
			d.refuses(d.sends(steered))
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &told{t: t, tr: spoken(t)}
			d.accepts(d.sends(adapters.Prompt{MessageID: "m1", Text: "do"}), "t1")
			c.play(d)
			require.Equal(t, []string{"m2"}, d.refused)
			require.Len(t, d.idle, c.idle)
			for _, idle := range d.idle {
				require.Equal(t, event.SessionIdle{StopReason: "end_turn"}, idle)
			}
			require.Len(t, d.Blocks, 1)
			require.Equal(t, "m1", d.Blocks[0].ID)
		})
	}
}

// A steered message that the program begins a turn with is shown when it does, and told.
func TestSteeredBehindTheTurn(t *testing.T) {
	t.Parallel()
	d := &told{t: t, tr: spoken(t)}
	d.accepts(d.sends(adapters.Prompt{MessageID: "m1", Text: "do"}), "t1")
	d.completes("t1")
	d.accepts(d.sends(adapters.Prompt{MessageID: "m2", Text: "more", Steer: true}), "t2")
	require.Len(t, d.Blocks, 1)
	d.step(event.DirOut, `{"method":"item/started","params":{"threadId":"main","turnId":"t2","item":{"type":"userMessage","id":"u2","clientId":"m2","content":[{"type":"text","text":"more"}]}}}`)
	d.completes("t2")
	require.Equal(t, []string{"m2"}, d.own)
	require.Len(t, d.idle, 2)
	require.Len(t, d.Blocks, 2)
	require.Equal(t, "m2", d.Blocks[1].ID)
}

// The program may answer the request with a steered message only when the turn that took it
// has ended: the session is idle then, and takes the next message.
func TestSteeredAndAnsweredLate(t *testing.T) {
	t.Parallel()
	d := &told{t: t, tr: spoken(t)}
	takes := func(turn, message string) {
		d.step(event.DirOut, fmt.Sprintf(`{"method":"item/started","params":{"threadId":"main","turnId":%q,"item":{"type":"userMessage","id":"item-%[2]s","clientId":%[2]q,"content":[]}}}`, turn, message))
	}
	d.accepts(d.sends(adapters.Prompt{MessageID: "m1", Text: "do"}), "t1")
	folded := d.sends(adapters.Prompt{MessageID: "m2", Text: "more", Steer: true})
	takes("t1", "m2")
	next := d.sends(adapters.Prompt{MessageID: "m3", Text: "and more", Steer: true})
	d.completes("t1")
	takes("t2", "m3")
	d.completes("t2")
	require.Empty(t, d.idle, "it has not answered yet")
	d.accepts(folded, "t1")
	require.Empty(t, d.idle)
	d.accepts(next, "t2")
	require.Equal(t, []event.SessionIdle{{StopReason: "end_turn"}}, d.idle)

	d.accepts(d.sends(adapters.Prompt{MessageID: "m4", Text: "last"}), "t3")
	d.completes("t3")
	require.Len(t, d.idle, 2)
}

// A script's call that a person has denied is kept by Sojourn, also if its turn is interrupted
// before the model has that result.
func TestDeniedAndInterrupted(t *testing.T) {
	t.Parallel()
	for id, lost := range map[string]bool{"exec-ae647ee7-d6c5-406f-b8d4-559c1ea39780": false, "call_1": true} {
		d := &told{t: t, tr: spoken(t)}
		d.accepts(d.sends(adapters.Prompt{MessageID: "m1", Text: "do"}), "t1")
		for _, l := range []string{
			`{"method":"item/started","params":{"threadId":"main","turnId":"t1","item":{"type":"commandExecution","id":%q,"command":"echo two","status":"inProgress"}}}`,
			`{"method":"item/completed","params":{"threadId":"main","turnId":"t1","item":{"type":"commandExecution","id":%q,"command":"echo two","status":"declined"}}}`,
		} {
			d.step(event.DirOut, fmt.Sprintf(l, id))
		}
		d.step(event.DirOut, `{"method":"turn/completed","params":{"threadId":"main","turn":{"id":"t1","status":"interrupted"}}}`)
		require.Len(t, d.Blocks, 2)
		require.Equal(t, lost, reducer.Lost(d.Blocks[1]), id)
		require.Equal(t, !lost, d.Blocks[1].Source == event.SourceServer, id)
	}
}

// A team's member that was started when its turn was interrupted is in the rollout with its
// call's end, of which the program sends only the beginning.
func TestStartedAndInterrupted(t *testing.T) {
	t.Parallel()
	d := &told{t: t, tr: spoken(t)}
	d.accepts(d.sends(adapters.Prompt{MessageID: "m1", Text: "do"}), "t1")
	d.step(event.DirOut, `{"method":"item/started","params":{"threadId":"main","turnId":"t1","item":{"type":"subAgentActivity","id":"call_1","kind":"started","agentThreadId":"child","agentPath":"/root/job_1"}}}`)
	d.step(event.DirOut, `{"method":"turn/completed","params":{"threadId":"main","turn":{"id":"t1","status":"interrupted"}}}`)
	require.Len(t, d.Blocks, 4) // the subagent's own is between the two
	call, result := d.Blocks[1], d.Blocks[3]
	require.Equal(t, "spawn_agent", call.ToolName)
	require.False(t, reducer.Lost(call))
	require.Equal(t, event.ExecutionSuccess, call.Execution)
	require.Equal(t, "call_1:result", result.ID)
	require.JSONEq(t, `""`, string(result.Output))
	require.False(t, *result.IsError)
}

// The message of a turn that the program refuses to begin is in no rollout: Sojourn keeps
// it, whole, with why it failed.
func TestRefusedPromptIsKept(t *testing.T) {
	t.Parallel()
	d := &told{t: t, tr: spoken(t)}
	d.refuses(d.sends(adapters.Prompt{MessageID: "m1", Text: "look", Parts: []event.Part{{Type: "image", MediaType: "image/png", Data: "QQ=="}}}))
	require.Len(t, d.idle, 1)
	require.Equal(t, "overloaded", d.idle[0].Error.Message)
	replay.Same(t, d.State, recorded.Parsed(t), parity.Rules{})
	require.Len(t, d.Blocks, 2)
	require.Equal(t, "m1", d.Blocks[0].ID)
	require.Equal(t, event.StatusComplete, d.Blocks[0].Status)
	require.Equal(t, "look", *d.Blocks[0].Content)
	require.Len(t, d.Blocks[0].Parts, 2)
	require.Equal(t, event.BlockError, d.Blocks[1].Type)
	require.Equal(t, "overloaded", *d.Blocks[1].Message)
	state, err := d.tr.State()
	require.NoError(t, err)
	require.NotContains(t, string(state), "look")
}
