package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"time"
)

// ListData is a session's record: what a list shows without opening the session.
// It is plain data and has no status: Temporal has what runs, and the transcript
// has the conversation.
type ListData struct {
	ID    string `json:"id"`
	Title string `json:"title,omitempty"`
	// Agent is the adapter's name; Profile the profile's id.
	Agent   string `json:"agent"`
	Profile string `json:"profile,omitempty"`
	Model   string `json:"model,omitempty"`
	// Parent is the session that spawned this one, or that it was forked from.
	Parent string   `json:"parent,omitempty"`
	Tags   []string `json:"tags,omitempty"`
	// Metadata is the caller's: any JSON values, stored unchanged.
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
	// Carry is what the session's next run continues from (options, totals); the
	// workflow interprets it, not the archive.
	Carry json.RawMessage `json:"carry,omitempty"`
	// CreatedAt and UpdatedAt are set by the archive.
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// record is a stored ListData, with the unknown fields of a newer version, which
// are kept.
type record struct {
	ListData
	other map[string]json.RawMessage
}

// MarshalJSON writes the known fields over the kept ones.
func (r record) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(r.ListData)
	if err != nil || len(r.other) == 0 {
		return data, err
	}
	all := maps.Clone(r.other)
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// UnmarshalJSON keeps the fields that it doesn't know.
func (r *record) UnmarshalJSON(data []byte) error {
	*r = record{}
	if err := json.Unmarshal(data, &r.ListData); err != nil {
		return err
	}
	if err := json.Unmarshal(data, &r.other); err != nil {
		return err
	}
	for _, name := range recordFields {
		delete(r.other, name)
	}
	return nil
}

// recordFields are the names of ListData's own fields.
var recordFields = []string{"id", "title", "agent", "profile", "model", "parent", "nativeIds", "tags", "metadata", "carry", "createdAt", "updatedAt"}

// CreateSession writes a new session's record and stamps it; [ErrExists] if
// the id has one.
func (a *Archive) CreateSession(ctx context.Context, d ListData) (ListData, error) {
	if err := checkSession(d.ID); err != nil {
		return ListData{}, fmt.Errorf("archive: create session: %w", err)
	}
	d.CreatedAt = a.stamp(time.Time{})
	d.UpdatedAt = d.CreatedAt
	_, err := save(ctx, a, a.recordKey(d.ID), stored[record]{value: record{ListData: d}})
	if errors.Is(err, ErrChanged) {
		err = a.wasOurs(ctx, d)
	}
	if err != nil {
		return ListData{}, fmt.Errorf("archive: create session %s: %w", d.ID, err)
	}
	return d, nil
}

// wasOurs distinguishes a put whose answer was lost from a session that existed
// before.
func (a *Archive) wasOurs(ctx context.Context, d ListData) error {
	current, err := load[record](ctx, a, a.recordKey(d.ID))
	if err != nil {
		return err
	}
	x, _ := json.Marshal(current.value.ListData) // has just been decoded
	y, err := json.Marshal(d)
	if string(x) != string(y) {
		return errors.Join(err, ErrExists)
	}
	return err
}

// stamp returns the current time, and always a time after the given one.
func (a *Archive) stamp(after time.Time) time.Time {
	now := a.now().UTC().Round(0)
	if !now.After(after) {
		now = after.Add(time.Nanosecond)
	}
	return now
}

// Session returns a session's record; [ErrNotFound] for an unknown id.
func (a *Archive) Session(ctx context.Context, id string) (ListData, error) {
	s, err := a.record(ctx, id)
	if err != nil {
		return ListData{}, fmt.Errorf("archive: session %s: %w", id, err)
	}
	return s.value.ListData, nil
}

func (a *Archive) record(ctx context.Context, id string) (s stored[record], err error) {
	if err = checkSession(id); err != nil {
		return s, err
	}
	if s, err = load[record](ctx, a, a.recordKey(id)); err == nil && s.tag == "" {
		err = ErrNotFound
	}
	return s, err
}

// UpdateSession changes a session's record and returns the new one; [ErrNotFound]
// for an unknown id. change may be called more than once, each time on the
// current record; an error of it ends the update. Its changes of ID and CreatedAt
// are undone.
func (a *Archive) UpdateSession(ctx context.Context, id string, change func(*ListData) error) (d ListData, err error) {
	err = retry(ctx, func(int) error {
		s, err := a.record(ctx, id)
		if err != nil {
			return err
		}
		created, updated := s.value.CreatedAt, s.value.UpdatedAt
		if err := change(&s.value.ListData); err != nil {
			return err
		}
		s.value.ID, s.value.CreatedAt, s.value.UpdatedAt = id, created, a.stamp(updated)
		d = s.value.ListData
		_, err = save(ctx, a, a.recordKey(id), s)
		return err
	})
	if err != nil {
		return ListData{}, fmt.Errorf("archive: update session %s: %w", id, err)
	}
	return d, nil
}

// Sessions yields all sessions that have a record, in the order of their ids,
// including the open ones. The error ends it.
func (a *Archive) Sessions(ctx context.Context) iter.Seq2[ListData, error] {
	return func(yield func(ListData, error) bool) {
		for folder, err := range a.list(ctx, a.sessionsKey(), "", true) {
			var s stored[record]
			if err == nil {
				s, err = load[record](ctx, a, a.sessionsKey()+folder+"session.json")
			}
			if err != nil {
				yield(ListData{}, fmt.Errorf("archive: sessions: %w", err))
				return
			}
			if s.tag != "" && !yield(s.value.ListData, nil) {
				return
			}
		}
	}
}
