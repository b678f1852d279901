package adapters

import (
	"context"
	"errors"
	"fmt"

	"github.com/sojourn-run/sojourn/event"
)

// Dialogue leads the exchange with an agent's process: what the agent says
// goes through its translator, and what is for it is written as soon as
// the agent can take it. Not safe for concurrent use.
type Dialogue struct {
	tr    Translator
	write func(context.Context, Message) error
	held  bool
	// waiting are inputs that the agent can't take yet, in order.
	waiting []waitingInput
}

type waitingInput struct {
	id string
	in Input
}

// NewDialogue continues from the translator's state. write hands a message to
// the process; it must be harmless to write one again under its id.
func NewDialogue(tr Translator, write func(context.Context, Message) error) *Dialogue {
	return &Dialogue{tr: tr, write: write}
}

// Step translates a record, and writes what is due after it and what has
// waited for it. The events are good also with an error.
func (d *Dialogue) Step(ctx context.Context, r event.Record) ([]event.Event, error) {
	events := d.tr.Step(r)
	due := d.tr.Due()
	if d.held {
		return events, nil
	}
	for _, m := range due {
		if err := d.write(ctx, m); err != nil {
			return events, fmt.Errorf("write %s: %w", m.ID, err)
		}
	}
	return events, d.retry(ctx)
}

// Hold keeps back every input from now on, until Release: the records of an
// earlier process of the agent are still being read, and they say nothing of
// what the present one can take. What was due to that process, and answers to
// what it asked, are never written: the present one would take them for its own.
func (d *Dialogue) Hold() { d.held = true }

// Release ends a Hold and writes what has waited.
func (d *Dialogue) Release(ctx context.Context) error {
	d.held = false
	return d.retry(ctx)
}

// Say hands the agent an input: now, or after the first record that lets the
// agent take it. Inputs reach the agent in order, but for answers: what the
// agent waits for is never behind something else. Errors are those of Encode,
// ErrNotYet excepted, and of writing.
func (d *Dialogue) Say(ctx context.Context, id string, in Input) error {
	_, answer := in.(Answer)
	switch {
	case answer && d.held:
		return nil
	case !answer && (d.held || len(d.waiting) > 0):
		d.waiting = append(d.waiting, waitingInput{id, in})
		return nil
	}
	err := d.tell(ctx, id, in)
	if errors.Is(err, ErrNotYet) {
		d.waiting = append(d.waiting, waitingInput{id, in})
		return nil
	}
	return err
}

// State is the translator's.
func (d *Dialogue) State() ([]byte, error) { return d.tr.State() }

func (d *Dialogue) retry(ctx context.Context) error {
	for !d.held && len(d.waiting) > 0 {
		next := d.waiting[0]
		err := d.tell(ctx, next.id, next.in)
		if errors.Is(err, ErrNotYet) {
			return nil
		}
		d.waiting = d.waiting[1:]
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *Dialogue) tell(ctx context.Context, id string, in Input) error {
	messages, err := d.tr.Encode(id, in)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if err := d.write(ctx, m); err != nil {
			return fmt.Errorf("write %s: %w", m.ID, err)
		}
	}
	return nil
}
