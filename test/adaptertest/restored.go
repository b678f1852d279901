package adaptertest

import (
	"fmt"

	"github.com/sojourn-run/sojourn/adapters"
	store "github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/reducer/loss"
	"github.com/sojourn-run/sojourn/test/parity"
)

// restored returns the agent's part of the conversation that is restored from transcripts,
// with the places that Sojourn keeps of it.
func (r *Rig) restored(sources []adapters.Source) (reducer.State, []error) {
	return r.merged(sources, r.entries())
}

func (r *Rig) merged(sources []adapters.Source, entries []store.ServerEntry) (reducer.State, []error) {
	state, errs := fold(store.Merge(r.agent.Adapter.Parse(sources), entries))
	return parity.Native(state), errs
}

// entries are what Sojourn's own transcript holds of the session.
func (r *Rig) entries() []store.ServerEntry {
	server := loss.NewServerBlocks("")
	r.mu.Lock()
	for _, ev := range r.events {
		server.Add(ev)
	}
	r.mu.Unlock()
	return ServerEntries(server)
}

// ServerEntries returns what Sojourn's own transcript holds of a session.
func ServerEntries(server loss.ServerBlocks) (entries []store.ServerEntry) {
	for i, p := range server.Placed() {
		entries = append(entries, store.ServerEntry{
			ID: fmt.Sprint(i), Event: p.Event, Anchor: store.Anchor{ConversationID: p.ConversationID, AfterBlockID: p.AfterBlockID},
		})
	}
	return entries
}
