package session

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/sojourn-run/sojourn/event"
)

// Configure applies the changes and returns them as an event. changed reports whether there
// were any.
func (st *State) Configure(c Configure) (update event.OptionsUpdate, changed bool) {
	update, changed = st.describe(c)
	changed = setList(&st.Permissions, c.Permissions) || changed
	changed = set(&st.PermissionDeadline, c.PermissionDeadline) || changed
	changed = set(&st.Park, c.Park) || changed
	changed = setList(&st.UnknownEffects, c.UnknownEffects) || changed
	if c.IdleTimeoutMS != nil && *c.IdleTimeoutMS != 0 {
		changed = set(&st.IdleTimeoutMS, c.IdleTimeoutMS) || changed
	}
	changed = set(&st.MaxTicks, c.MaxTicks) || changed
	if c.Limits != nil && st.Limits.With(*c.Limits) != st.Limits {
		st.Limits, changed = st.Limits.With(*c.Limits), true
	}
	return update, changed
}

// describe applies the changes that subscribers see, and returns them.
func (st *State) describe(c Configure) (update event.OptionsUpdate, changed bool) {
	if set(&st.Title, c.Title) {
		update.Title, changed = c.Title, true
	}
	if set(&st.Model, c.Model) {
		update.Model, changed = c.Model, true
	}
	if set(&st.Permission, c.Permission) {
		mode := string(*c.Permission)
		update.PermissionMode, changed = &mode, true
	}
	if merged := st.MergedMetadata(c); !sameMetadata(merged, st.Metadata) {
		st.Metadata, update.Metadata, changed = merged, c.Metadata, true
	}
	if c.Tags != nil && !slices.Equal(c.Tags, st.Tags) {
		st.Tags, update.Tags, changed = c.Tags, c.Tags, true
	}
	return update, changed
}

// MergedMetadata returns the resulting metadata of the session: keys of c are set, and a
// null removes its key.
func (st *State) MergedMetadata(c Configure) map[string]json.RawMessage {
	out := maps.Clone(st.Metadata)
	if out == nil {
		out = map[string]json.RawMessage{}
	}
	//workflowcheck:ignore the result is a map and does not depend on the order
	for k, v := range c.Metadata {
		if string(v) == "null" {
			delete(out, k)
			continue
		}
		out[k] = v
	}
	return out
}

func sameMetadata(a, b map[string]json.RawMessage) bool {
	return maps.EqualFunc(a, b, func(v, w json.RawMessage) bool { return bytes.Equal(v, w) })
}

// set sets have to want, if that is set, and reports whether it changed.
func set[T comparable](have, want *T) bool {
	if want == nil || *want == *have {
		return false
	}
	*have = *want
	return true
}

// setList is set for a list.
func setList[L ~[]E, E comparable](have, want *L) bool {
	if want == nil || slices.Equal(*want, *have) {
		return false
	}
	*have = *want
	return true
}
