package activities

import (
	"context"
	"errors"
	"fmt"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// meet begins the dialogue with the agent's process: it is written its opening,
// once, and nothing else before the records up to there are read.
func (t *turn) meet(ctx context.Context) error {
	tr, err := t.agent.adapter.Translator(t.agent.launch, t.mark.Translator)
	if err != nil {
		return err
	}
	t.dialogue = adapters.NewDialogue(tr, t.write)
	if t.agent.opened == (runner.Ack{}) {
		if err := t.dialogue.Say(ctx, t.openingID(), adapters.Initialize{}); err != nil {
			return err
		}
	}
	if t.behind = t.agent.opened.Next > t.mark.Offset; t.behind {
		t.dialogue.Hold()
	}
	if t.agent.fresh && t.agent.note != "" {
		note := own(event.Log{Level: "info", Message: t.agent.note})
		return t.out.Add(ctx, []event.Event{note}, stream.Position{})
	}
	return nil
}

// openingID tells the openings of the agent's processes apart. Whoever started
// the process may have died before its opening was written.
func (t *turn) openingID() string {
	return fmt.Sprintf("initialize-%d", t.agent.conn.Attached().RestartCount)
}

// promptID is what the runner knows the prompt by. After a loss it is another
// prompt.
func (t *turn) promptID() string {
	id := "prompt-" + t.in.Message.ID
	if r := t.mark.Open.Resume; r != nil {
		id += fmt.Sprintf("-resumed-%d", r.Times)
	}
	return id
}

// write hands a message to the runner, which writes it once. A process that ended
// while the agent was idle refuses it: the next attempt asks another process.
func (t *turn) write(ctx context.Context, m adapters.Message) error {
	ack, err := t.agent.conn.Input(ctx, m.ID, m.Data)
	if errors.Is(err, runner.ErrExited) && (t.agent.fresh || t.prompt != nil) {
		// This process was started or asked in this turn, which ends with it: the
		// records say how.
		return nil
	}
	if err != nil {
		return err
	}
	switch m.ID {
	case t.openingID():
		t.agent.opened = ack
	case t.promptID():
		t.prompt = &ack
	}
	return nil
}

// step translates a record; from the opening of the present process on, what
// it wants to be told is written.
func (t *turn) step(ctx context.Context, d runner.Delivery) ([]event.Event, error) {
	events, err := t.dialogue.Step(ctx, d.Record)
	if err == nil && t.behind && d.Next >= t.agent.opened.Next {
		t.behind = false
		err = t.dialogue.Release(ctx)
	}
	return events, err
}

// turnedDown ends the turn of an agent that refuses its session, and the
// agent: another process may fare better.
func (t *turn) turnedDown(ctx context.Context, refused error) (*ending, error) {
	if _, err := t.agent.conn.Stop(ctx, runner.Grace{}); err != nil && !errors.Is(err, runner.ErrExited) {
		return nil, fmt.Errorf("stop the agent: %w", err)
	}
	return &ending{outcome: session.Failed, exited: true, failure: &event.ErrorInfo{
		Message: refused.Error(), Code: session.TypeAgentFailed,
	}}, nil
}
