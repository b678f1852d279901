package session

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
)

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	rec := Record{
		Options: Options{
			Agent: "claude", Profile: "p", Title: "t", Model: "opus", Permission: adapters.PermissionAsk, Tags: []string{"a"},
			Metadata: map[string]json.RawMessage{"k": json.RawMessage(`{"any":"value"}`)}, IdleTimeoutMS: 7,
		},
		Turns: 3, Usage: event.Usage{InputTokens: 1}, CostUSD: new(0.5), Native: 2, Executions: 4, LastSeq: 99, LastBlockID: "b", LastBlock: "said",
	}
	data := archive.ListData{ID: "s1"}
	require.NoError(t, rec.Apply(&data))
	require.Equal(t, "claude", data.Agent)
	require.Equal(t, "p", data.Profile)
	require.Equal(t, "t", data.Title)
	require.Equal(t, rec.Options.Metadata, data.Metadata)
	back, err := RecordOf(data)
	require.NoError(t, err)
	require.Equal(t, rec, back)
}

func TestABadRecordNamesTheSession(t *testing.T) {
	t.Parallel()
	for _, carry := range []string{"", "no JSON", "[]"} {
		_, err := RecordOf(archive.ListData{ID: "s1", Carry: json.RawMessage(carry)})
		require.ErrorContains(t, err, "session s1")
	}
}

// TestR11NoStatusInRecord: the persisted record has no status and no isLoading.
func TestR11NoStatusInRecord(t *testing.T) {
	t.Parallel()
	data := archive.ListData{ID: "s1"}
	require.NoError(t, Record{Options: Options{Agent: "claude"}}.Apply(&data))
	for _, v := range []any{data, Record{}, Options{}} {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		require.NotContains(t, string(text), "tatus")
		require.NotContains(t, string(text), "oading")
	}
}
