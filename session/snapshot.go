package session

import (
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/reducer/ticks"
)

// NewSnapshot returns the snapshot of a session's state at a time, without its status.
func NewSnapshot(in Input, st *State, at time.Time) Snapshot {
	s := Snapshot{
		Version: SnapshotVersion, SessionID: in.SessionID, Agent: in.Options.Agent, Profile: in.Options.Profile,
		Title: st.Title, Parent: in.Parent, Children: slices.Clone(st.Children), Aborted: st.Aborted, Queued: st.Queue.Messages(),
		Turns: st.Turns, Usage: st.Usage, CostUSD: st.CostUSD, TickCount: st.Ticks, LastSeq: st.LastSeq,
		Sandbox: st.Sandbox, Timestamp: at, Companions: companionsIn(st.Metadata),
	}
	if s.Children == nil {
		s.Children = []Child{}
	}
	return s
}

// inspectClosed returns what the record of a closed session has of its state, as it was at its
// end.
func inspectClosed(d archive.ListData) (Inspection, error) {
	rec, err := RecordOf(d)
	st := &State{
		Title: d.Title, Turns: rec.Turns, Usage: rec.Usage, CostUSD: rec.CostUSD, Ticks: rec.Ticks, LastSeq: rec.LastSeq,
		Metadata: rec.Options.Metadata,
	}
	rec.Options.Agent, rec.Options.Profile = d.Agent, d.Profile
	i := Inspection{
		Snapshot: NewSnapshot(Input{SessionID: d.ID, Options: rec.Options}, st, d.UpdatedAt), Phase: phaseClosed,
		Options: rec.Options, CreatedAt: d.CreatedAt, LastBlock: rec.LastBlock, LastTools: []ticks.Tool{}, Pending: []string{},
	}
	i.Status = StatusClosed
	return i, err
}
