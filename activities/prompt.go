package activities

import (
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/session"
)

// promptWatch finds out whether the agent streamed the message of an execution.
type promptWatch struct {
	executionID string
	// ids are those that its block may have; some agents choose another one, behind
	// the execution's start.
	ids               []string
	started, streamed bool
}

func (w *promptWatch) add(ev event.Event) {
	switch p := ev.Payload.(type) {
	case event.QueryStarted:
		w.started = w.started || p.ExecutionID == w.executionID
	case event.BlockUpsert:
		prompt := p.Block.Type == event.BlockUserMessage && ev.Context.Conversation() == event.Main
		w.streamed = w.streamed || prompt && (w.started || slices.Contains(w.ids, p.Block.ID))
	}
}

// keepPrompt returns a message that was not streamed as a server block, unless
// the agent has persisted it under one of its ids: a person's message is never lost. A build before
// this one does not pass the message; then there is nothing to keep.
func keepPrompt(m session.Message, ids []string, persisted reducer.State, at time.Time) []event.Event {
	if m.ID == "" || written(ids, persisted) {
		return nil
	}
	ev := own(event.BlockUpsert{Block: event.Block{
		ID: m.ID, Type: event.BlockUserMessage, Status: event.StatusComplete, Source: event.SourceServer, Content: &m.Text, Parts: m.Parts,
	}})
	ev.Context.Timestamp = at
	return []event.Event{ev}
}
