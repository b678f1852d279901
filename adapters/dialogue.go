package adapters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// Dialogue drives the exchange with an agent's process: it passes the agent's
// output through the translator, and writes inputs as soon as the agent can take
// them. Not safe for concurrent use.
type Dialogue struct {
	tr    Translator
	write func(context.Context, Message) error
	held  bool
	// unread is the last prompt that was written and whose record was not read yet; ""
	// for none. Until then the translator does not know of its turn.
	unread string
	// waiting are inputs that the agent can't take yet, in order.
	waiting []waitingInput
}

type waitingInput struct {
	id string
	in Input
}

// NewDialogue returns a dialogue that continues from the translator's state.
// write writes a message to the process; it must be harmless to write one again
// under its id.
func NewDialogue(tr Translator, write func(context.Context, Message) error) *Dialogue {
	return &Dialogue{tr: tr, write: write}
}

// Step translates a record, then writes what is due and the inputs that waited
// for it. The events are valid also with an error.
func (d *Dialogue) Step(ctx context.Context, r traffic.Record) ([]event.Event, error) {
	events := d.tr.Step(r)
	due := d.tr.Due()
	if d.unread != "" && r.Dir == event.DirIn && isRecordOf(d.unread, r) {
		d.unread = ""
	}
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

// Hold holds back every input until Release: the records of an earlier process of
// the agent are still being read, and they don't show what the current one can
// take. Messages due to that process, and answers to its requests, are never
// written: the current one would take them for its own.
func (d *Dialogue) Hold() { d.held = true }

// Release ends a Hold and writes the waiting inputs.
func (d *Dialogue) Release(ctx context.Context) error {
	d.held = false
	return d.retry(ctx)
}

// Say passes the agent an input: now, or after the first record after which the
// agent can take it. Inputs reach the agent in order, except for answers, which
// never wait behind something else. Errors are those of Encode, ErrNotYet
// excepted, and of writing.
//
// An interrupt of nothing also waits for the record of the prompt before it: a
// translator that does not know the prompt's turn yet has nothing to interrupt.
func (d *Dialogue) Say(ctx context.Context, id string, in Input) error {
	_, answer := in.(Answer)
	switch {
	case answer && d.held:
		return nil
	case !answer && d.held:
		d.waiting = append(d.waiting, waitingInput{id, in})
		return nil
	case !answer && len(d.waiting) > 0:
		// What the agent can't take at all is refused now: a later error would reach no caller.
		if _, err := d.tr.Encode(id, in); errors.Is(err, ErrUnsupported) {
			return err
		}
		d.waiting = append(d.waiting, waitingInput{id, in})
		return nil
	}
	err := d.encode(ctx, id, in)
	if errors.Is(err, ErrNotYet) {
		d.waiting = append(d.waiting, waitingInput{id, in})
		return nil
	}
	return err
}

// Waits reports whether the agent could not take an input yet.
func (d *Dialogue) Waits(id string) bool {
	return slices.ContainsFunc(d.waiting, func(w waitingInput) bool { return w.id == id })
}

// State returns the translator's state.
func (d *Dialogue) State() ([]byte, error) { return d.tr.State() }

func (d *Dialogue) retry(ctx context.Context) error {
	for !d.held && len(d.waiting) > 0 {
		next := d.waiting[0]
		err := d.encode(ctx, next.id, next.in)
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

func (d *Dialogue) encode(ctx context.Context, id string, in Input) error {
	messages, err := d.tr.Encode(id, in)
	if err != nil {
		return err
	}
	if _, interrupt := in.(Interrupt); interrupt && len(messages) == 0 && d.unread != "" {
		return ErrNotYet
	}
	for _, m := range messages {
		if _, prompt := in.(Prompt); prompt {
			d.unread = strings.TrimSuffix(string(m.Data), "\n")
		}
		if err := d.write(ctx, m); err != nil {
			return fmt.Errorf("write %s: %w", m.ID, err)
		}
	}
	return nil
}

// isRecordOf reports whether a record is that of a written line.
func isRecordOf(line string, r traffic.Record) bool {
	if r.Cut != nil {
		return r.Cut.Bytes == int64(len(line))
	}
	return r.Line == line
}
