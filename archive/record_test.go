package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/test/teststack"
)

func raw(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// get(id): session or null, never an exception for an unknown id.
func TestR4GetUnknown(t *testing.T) {
	t.Parallel()
	a := open(t)
	d, err := a.Session(t.Context(), "unknown")
	require.ErrorIs(t, err, ErrNotFound)
	require.Zero(t, d)
	_, err = a.Session(t.Context(), "../x")
	require.ErrorIs(t, err, ErrInvalid)
	created, err := a.CreateSession(t.Context(), ListData{ID: "s1", Agent: "claude"})
	require.NoError(t, err)
	got, err := another(t, a, nil).Session(t.Context(), "s1")
	require.NoError(t, err)
	require.Equal(t, created, got)
	_, err = a.CreateSession(t.Context(), ListData{ID: "s1", Agent: "codex"})
	require.ErrorIs(t, err, ErrExists)
}

// update(id, partial): returns the updated session.
func TestR5Update(t *testing.T) {
	t.Parallel()
	a := open(t)
	old, err := a.CreateSession(t.Context(), ListData{ID: "s1", Agent: "claude", Title: "one", Tags: []string{"x"}})
	require.NoError(t, err)
	got, err := a.UpdateSession(t.Context(), "s1", func(d *ListData) error {
		d.Title, d.ID, d.CreatedAt = "two", "other", time.Time{}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, "two", got.Title)
	require.Equal(t, old.Tags, got.Tags, "what was not given stays")
	require.Equal(t, "s1", got.ID)
	require.Equal(t, old.CreatedAt, got.CreatedAt)
	require.True(t, got.UpdatedAt.After(old.UpdatedAt))
	stored, err := a.Session(t.Context(), "s1")
	require.NoError(t, err)
	require.Equal(t, got, stored)
	_, err = a.UpdateSession(t.Context(), "nobody", func(*ListData) error { return nil })
	require.ErrorIs(t, err, ErrNotFound)
	no := errors.New("no")
	_, err = a.UpdateSession(t.Context(), "s1", func(*ListData) error { return no })
	require.ErrorIs(t, err, no)
}

func TestUpdatesMeet(t *testing.T) {
	t.Parallel()
	a := open(t)
	_, err := a.CreateSession(t.Context(), ListData{ID: "s1", Agent: "claude"})
	require.NoError(t, err)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = a.UpdateSession(t.Context(), "s1", func(d *ListData) error {
				d.Tags = append(d.Tags, fmt.Sprint(i))
				return nil
			})
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	d, err := a.Session(t.Context(), "s1")
	require.NoError(t, err)
	require.Len(t, d.Tags, 8, "no update lost")
}

// delete(id): everything is deleted from storage, and an unknown id is void.
func TestR6Delete(t *testing.T) {
	t.Parallel()
	a := open(t)
	require.NoError(t, a.DeleteSession(t.Context(), "nobody"))
	e := fill(t, a, "s1")
	fill(t, a, "s10")
	other, err := a.Leftovers(t.Context(), "s10")
	require.NoError(t, err)
	require.NoError(t, a.MarkClosed(t.Context(), "s1", e, time.Now()))
	left, err := a.Leftovers(t.Context(), "s1")
	require.NoError(t, err)
	require.Greater(t, len(left), 6)

	require.NoError(t, a.DeleteSession(t.Context(), "s1"))
	left, err = a.Leftovers(t.Context(), "s1")
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = a.Session(t.Context(), "s1")
	require.ErrorIs(t, err, ErrNotFound)
	_, err = a.AppendTranscript(t.Context(), "s1", e, mainFile, 4, []byte("late"))
	require.ErrorIs(t, err, ErrFenced, "nobody brings it back")
	still, err := a.Leftovers(t.Context(), "s10")
	require.NoError(t, err)
	require.Equal(t, other, still)
}

// A session whose head is damaged, which names its markers, is deleted with its markers.
func TestDeleteOfADamagedSession(t *testing.T) {
	t.Parallel()
	a := open(t)
	for _, id := range []string{"s1", "s2"} {
		require.NoError(t, a.MarkClosed(t.Context(), id, fill(t, a, id), time.Now()))
	}
	require.NoError(t, a.put(t.Context(), a.headKey("s1"), []byte("garbage")))
	other := another(t, a, http.DefaultTransport)
	require.NoError(t, other.DeleteSession(t.Context(), "s1"))
	left, err := other.Leftovers(t.Context(), "s1")
	require.NoError(t, err)
	require.Empty(t, left)
	left, err = other.Leftovers(t.Context(), "s2")
	require.NoError(t, err)
	require.Greater(t, len(left), 6)
}

func fill(t *testing.T, a *Archive, id string) (epoch uint64) {
	t.Helper()
	epoch = take(t, a, id)
	_, err := a.CreateSession(t.Context(), ListData{ID: id, Agent: "claude", Title: "T"})
	require.NoError(t, err)
	mustAppend(t, a, id, epoch, 0, []byte("main"))
	_, err = a.AppendTranscript(t.Context(), id, epoch, adapters.Transcript{ID: "sub", Path: "sub.jsonl", Kind: adapters.Append}, 0, []byte("sub"))
	require.NoError(t, err)
	require.NoError(t, a.AppendServerEntries(t.Context(), id, epoch, ServerEntry{Event: notice("x")}))
	others, err := a.Objects(id, "workspace")
	require.NoError(t, err)
	require.NoError(t, others.Put(t.Context(), "head.json", []byte("{}")))
	return epoch
}

// Metadata: any JSON values.
func TestR10MetadataBag(t *testing.T) {
	t.Parallel()
	a := open(t)
	metadata := map[string]json.RawMessage{
		"userId": raw("u"), "tags": raw([]string{"a"}), "priority": raw(3), "isArchived": raw(true), "archivedAt": raw(nil),
		"status": raw("escalated"), "nested": raw(map[string]any{"a": []any{1.5, nil, "x"}}), "big": json.RawMessage("12345678901234567890"),
	}
	_, err := a.CreateSession(t.Context(), ListData{ID: "s1", Agent: "claude", Metadata: metadata})
	require.NoError(t, err)
	d, err := a.Session(t.Context(), "s1")
	require.NoError(t, err)
	require.Equal(t, metadata, d.Metadata)
}

// The persisted record has no status and no isLoading.
func TestR11NoStoredStatus(t *testing.T) {
	t.Parallel()
	a := open(t)
	e := fill(t, a, "s1")
	require.NoError(t, a.MarkClosed(t.Context(), "s1", e, time.Now()))
	for _, key := range []string{a.recordKey("s1"), a.headKey("s1"), a.transcriptKey("s1", "main") + "head.json"} {
		data, _, err := a.get(t.Context(), key)
		require.NoError(t, err)
		var fields map[string]any
		require.NoError(t, json.Unmarshal(data, &fields))
		for _, name := range []string{"status", "isLoading", "isLoaded", "state", "runtime", "sandbox"} {
			require.NotContains(t, fields, name, key)
		}
	}
}

// Raw native transcript stored loss-free; persistence knows no blocks.
func TestR112LossFree(t *testing.T) {
	t.Parallel()
	a := open(t)
	e := take(t, a, "s1")
	odd := append([]byte("{\"torn\": \r\n\x00\xff\xfe no json at all \u2028"), noise(4, 3000)...)
	for at := 0; at < len(odd); at += 700 {
		mustAppend(t, a, "s1", e, int64(at), odd[at:min(at+700, len(odd))])
	}
	require.Equal(t, odd, mustRead(t, a, "s1", "main"))
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	a := open(t)
	none, err := a.Profiles(t.Context())
	require.NoError(t, err)
	require.Empty(t, none)
	_, err = a.Profile(t.Context(), "team")
	require.ErrorIs(t, err, ErrNotFound)
	require.NoError(t, a.SaveProfile(t.Context(), "team", []byte("old")))
	require.NoError(t, a.SaveProfile(t.Context(), "team", []byte("{}")))
	got, err := a.Profile(t.Context(), "team")
	require.NoError(t, err)
	require.Equal(t, "{}", string(got))
	ids, err := a.Profiles(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"team"}, ids)
	require.NoError(t, a.DeleteProfile(t.Context(), "team"))
	_, err = a.Profile(t.Context(), "team")
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorIs(t, a.SaveProfile(t.Context(), "a/../../b", nil), ErrInvalid)
	require.ErrorIs(t, a.DeleteProfile(t.Context(), "../sessions"), ErrInvalid)
	_, err = a.Profile(t.Context(), "../sessions")
	require.ErrorIs(t, err, ErrInvalid)
}

func TestFieldsOfNewerVersionsAreKept(t *testing.T) {
	t.Parallel()
	a := open(t)
	require.NoError(t, a.put(t.Context(), a.recordKey("s1"), []byte(`{"id":"s1","agent":"x","colour":{"a":1}}`)))
	_, err := a.UpdateSession(t.Context(), "s1", func(d *ListData) error { d.Title = "T"; return nil })
	require.NoError(t, err)
	data, _, err := a.get(t.Context(), a.recordKey("s1"))
	require.NoError(t, err)
	require.Contains(t, string(data), `"colour":{"a":1}`)
	require.Contains(t, string(data), `"title":"T"`)
}

// A session whose objects are damaged is listed and named, and hides no other.
func TestClosedListNamesDamage(t *testing.T) {
	t.Parallel()
	a := open(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, id := range []string{"good", "torn", "other", "head"} {
		e := take(t, a, id)
		_, err := a.CreateSession(t.Context(), ListData{ID: id, Agent: "claude"})
		require.NoError(t, err)
		require.NoError(t, a.MarkClosed(t.Context(), id, e, at.Add(time.Duration(i)*time.Minute)))
	}
	require.NoError(t, a.put(t.Context(), a.recordKey("torn"), []byte("garbage")))
	require.NoError(t, a.put(t.Context(), a.recordKey("other"), []byte("{}")))
	require.NoError(t, a.put(t.Context(), a.headKey("head"), []byte("garbage")))
	page, next, err := a.ListClosed(t.Context(), 10, "")
	require.NoError(t, err)
	require.Empty(t, next)
	require.Len(t, page, 4)
	for i, id := range []string{"head", "other", "torn"} {
		require.Equal(t, id, page[i].ID)
		require.Contains(t, page[i].Damage, id+"/", "it names the object")
		require.Contains(t, page[i].Damage, "archive is corrupt")
	}
	require.Equal(t, "claude", page[3].Agent)
	require.Empty(t, page[3].Damage)
	_, err = a.Session(t.Context(), "torn")
	require.ErrorIs(t, err, ErrCorrupt)
}

func TestClosedList(t *testing.T) {
	t.Parallel()
	a := open(t)
	base := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	var want []string
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(23) {
		id := fmt.Sprintf("s%02d", i)
		e := take(t, a, id)
		_, err := a.CreateSession(t.Context(), ListData{ID: id, Agent: "claude"})
		require.NoError(t, err)
		require.NoError(t, a.MarkClosed(t.Context(), id, e, base.Add(time.Duration(i)*time.Minute)))
	}
	for i := 22; i >= 0; i-- {
		want = append(want, fmt.Sprintf("s%02d", i))
	}
	pages := func(limit int) (ids []string) {
		for token := ""; ; {
			page, next, err := a.ListClosed(t.Context(), limit, token)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page), limit)
			for _, s := range page {
				ids = append(ids, s.ID)
			}
			if token = next; token == "" {
				return ids
			}
		}
	}
	for _, limit := range []int{1, 7, 23, 24} {
		require.Equal(t, want, pages(limit), "newest first, each once")
	}
	page, _, err := a.ListClosed(t.Context(), 1, "")
	require.NoError(t, err)
	require.Equal(t, base.Add(22*time.Minute), page[0].ClosedAt)

	e := take(t, a, "s05")
	require.NoError(t, a.MarkOpen(t.Context(), "s05", e))
	require.NoError(t, a.MarkOpen(t.Context(), "s05", e))
	require.NotContains(t, pages(5), "s05", "reopened")
	for range 2 {
		require.NoError(t, a.MarkClosed(t.Context(), "s05", e, base.Add(time.Hour)))
	}
	require.Equal(t, "s05", pages(5)[0], "closed again, once")
	require.Len(t, pages(5), 23)
	left, err := a.Leftovers(t.Context(), "s05")
	require.NoError(t, err)
	require.Len(t, left, 3, "head, record, one marker")
	_, _, err = a.ListClosed(t.Context(), 5, "nonsense")
	require.ErrorIs(t, err, ErrInvalid)
}

// A marker whose removal failed is removed by the next change of the list, and with its
// session.
func TestClosedListLosesNoMarker(t *testing.T) {
	t.Parallel()
	calm := open(t)
	broken := another(t, calm, noDeletes{})
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	markers := func() (names []string) {
		for name, err := range calm.list(t.Context(), calm.closedKey(), "", false) {
			require.NoError(t, err)
			names = append(names, name)
		}
		return names
	}
	e := take(t, calm, "s1")
	require.NoError(t, calm.MarkClosed(t.Context(), "s1", e, at))
	require.Error(t, broken.MarkClosed(t.Context(), "s1", e, at.Add(time.Minute)))
	require.Len(t, markers(), 2)
	require.NoError(t, calm.MarkClosed(t.Context(), "s1", e, at.Add(time.Minute)))
	require.Equal(t, []string{markerName(at.Add(time.Minute), "s1")}, markers())

	require.Error(t, broken.MarkOpen(t.Context(), "s1", e))
	require.NoError(t, calm.MarkOpen(t.Context(), "s1", e))
	require.Empty(t, markers())

	require.NoError(t, calm.MarkClosed(t.Context(), "s1", e, at))
	require.Error(t, broken.MarkOpen(t.Context(), "s1", e))
	require.NoError(t, calm.MarkClosed(t.Context(), "s1", e, at.Add(time.Hour)))
	require.Equal(t, []string{markerName(at.Add(time.Hour), "s1")}, markers())

	require.Error(t, broken.MarkOpen(t.Context(), "s1", e))
	require.NoError(t, calm.DeleteSession(t.Context(), "s1"))
	require.Empty(t, markers())
}

// noDeletes is a transport on which every deletion is lost.
type noDeletes struct{}

// RoundTrip implements http.RoundTripper.
func (noDeletes) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodDelete {
		return nil, teststack.ErrCut
	}
	return http.DefaultTransport.RoundTrip(r)
}
