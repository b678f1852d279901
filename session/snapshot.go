package session

import (
	"slices"
	"time"
)

// NewSnapshot returns the snapshot of a session's state at a time, without its status.
func NewSnapshot(in Input, st *State, at time.Time) Snapshot {
	s := Snapshot{
		Version: SnapshotVersion, SessionID: in.SessionID, Agent: in.Options.Agent, Profile: in.Options.Profile,
		Title: st.Title, Parent: in.Parent, Children: slices.Clone(st.Children), Aborted: st.Aborted, Queued: st.Queue.Messages(),
		Turns: st.Turns, Usage: st.Usage, CostUSD: st.CostUSD, TickCount: st.Ticks, LastSeq: st.LastSeq,
		Sandbox: st.Sandbox, Timestamp: at,
	}
	if s.Children == nil {
		s.Children = []Child{}
	}
	return s
}
