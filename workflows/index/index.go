// Package index has the search attributes of a session. An upsert is an event in history,
// so only changes are upserted.
package index

import (
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/session"
)

// Entry is what the index shows of a session and may change. The zero value is that of a
// run that has published nothing yet.
type Entry struct {
	Status  session.Status
	Outcome session.Outcome
	// Limit keeps queued messages from running; "" for none.
	Limit string
	Title string
	// Host is the sandbox's host; "" for none.
	Host  string
	Turns int
	// CostUSD is nil while it is unknown.
	CostUSD      *float64
	LastActivity time.Time
	Tags         []string
	// Shown is set in every entry but the zero value.
	Shown bool
}

// Of returns a session's entry.
func Of(st *session.State, status session.Status, limit string) Entry {
	e := Entry{
		Status: status, Outcome: st.Outcome, Limit: limit, Title: st.Title, Turns: st.Turns, CostUSD: st.CostUSD,
		LastActivity: st.LastActivity, Tags: st.Tags, Shown: true,
	}
	if st.Sandbox != nil {
		e.Host = st.Sandbox.Host
	}
	return e
}

// Changes returns the updates from one entry to the next; those from the zero value also
// have what never changes, which is in the input.
func Changes(was, now Entry, in session.Input) []temporal.SearchAttributeUpdate {
	var set []temporal.SearchAttributeUpdate
	if !was.Shown {
		set = append(set, constants(in)...)
	}
	if now.Status != was.Status {
		set = append(set, session.AttrStatus.ValueSet(string(now.Status)))
	}
	if now.Outcome != was.Outcome {
		set = append(set, session.AttrOutcome.ValueSet(string(now.Outcome)))
	}
	if now.Limit != was.Limit {
		set = append(set, keywordOrNone(session.AttrLimit, now.Limit))
	}
	if now.Title != was.Title {
		set = append(set, session.AttrTitle.ValueSet(now.Title))
	}
	if now.Host != was.Host {
		set = append(set, keywordOrNone(session.AttrHost, now.Host))
	}
	if now.Turns != was.Turns || !was.Shown {
		set = append(set, session.AttrTurns.ValueSet(int64(now.Turns)))
	}
	if now.CostUSD != nil && (was.CostUSD == nil || *now.CostUSD != *was.CostUSD || !was.Shown) {
		set = append(set, session.AttrCostUSD.ValueSet(*now.CostUSD))
	}
	if !now.LastActivity.Equal(was.LastActivity) {
		set = append(set, session.AttrLastActivity.ValueSet(now.LastActivity))
	}
	if !slices.Equal(now.Tags, was.Tags) {
		set = append(set, session.AttrTags.ValueSet(now.Tags))
	}
	return set
}

func keywordOrNone(key temporal.SearchAttributeKeyKeyword, v string) temporal.SearchAttributeUpdate {
	if v == "" {
		return key.ValueUnset()
	}
	return key.ValueSet(v)
}

func constants(in session.Input) []temporal.SearchAttributeUpdate {
	set := []temporal.SearchAttributeUpdate{
		session.AttrAgent.ValueSet(in.Options.Agent),
		session.AttrRoot.ValueSet(in.Root()),
		session.AttrDepth.ValueSet(int64(in.Depth())),
	}
	if in.Options.Profile != "" {
		set = append(set, session.AttrProfile.ValueSet(in.Options.Profile))
	}
	if in.Options.Tenant != "" {
		set = append(set, session.AttrTenant.ValueSet(in.Options.Tenant))
	}
	switch {
	case in.Parent != nil:
		set = append(set, session.AttrParent.ValueSet(in.Parent.SessionID))
	case in.Ephemeral:
		set = append(set, session.AttrParent.ValueSet(session.ParentNone))
	}
	return set
}
