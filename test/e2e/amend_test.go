package e2e

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/test/teststack"
)

// A session that is done is put away: its title, tags and metadata change in its record, in
// lists and in what shows it, and it has them when it is opened again.
func TestR135ClosedSessionIsAmended(t *testing.T) {
	onSharedHost(t)
	ctx := testContext(t)
	c := spaceOf(t).Client
	h := open(t, session.Options{
		Title: "Login bug", Tags: []string{"auth"}, Metadata: map[string]json.RawMessage{"isArchived": json.RawMessage(`false`), "team": json.RawMessage(`"core"`), "draft": json.RawMessage(`1`)},
	})
	require.NoError(t, say(t, h, "SAY fixed").Err())
	require.NoError(t, h.Close(ctx))
	before, err := spaceOf(t).Archive.Session(ctx, h.ID())
	require.NoError(t, err)
	changes, listening := make(chan stream.Change, 64), make(chan struct{})
	go listen(ctx, c, changes, listening)
	<-listening

	title := "Resolved: login bug"
	after, err := c.Amend(ctx, h.ID(), session.Amendment{Title: &title, Tags: []string{"auth", "done"}, Metadata: map[string]json.RawMessage{
		"isArchived": json.RawMessage(`true`), "archivedAt": json.RawMessage(`"2026-01-15T00:00:00Z"`), "resolution": json.RawMessage(`"Fixed in #123"`), "draft": json.RawMessage(`null`),
	}})
	require.NoError(t, err)
	require.Equal(t, title, after.Title)
	require.Equal(t, session.StatusClosed, after.Status)
	awaitChange(t, changes, h.ID(), stream.ChangeRenamed) // who shows a list reads it again

	const bag = `{"isArchived":true,"archivedAt":"2026-01-15T00:00:00Z","resolution":"Fixed in #123","team":"core"}`
	conv, err := c.Show(ctx, h.ID(), session.FromArchive)
	require.NoError(t, err)
	rec := conv.Record()
	require.Equal(t, title, rec.Title)
	require.JSONEq(t, bag, bagOf(t, rec.Metadata))
	require.True(t, rec.UpdatedAt.After(before.UpdatedAt))
	require.True(t, rec.CreatedAt.Equal(before.CreatedAt))
	require.Len(t, rec.Messages, 2, "what was said stays")

	listed, err := c.List(ctx, session.ListOptions{Query: "WorkflowId = '" + h.ID() + "'"})
	require.NoError(t, err)
	require.Empty(t, listed.Faults)
	require.Equal(t, title, listed.Sessions[0].Title)
	require.Equal(t, []string{"auth", "done"}, listed.Sessions[0].Tags)

	// The same from the command line.
	sojourn(t, "configure", h.ID(), "--title", "Filed", "--meta", "resolution=wontfix")
	var described session.Inspection
	sojournJSON(t, &described, "describe", h.ID())
	require.Equal(t, "Filed", described.Title)
	require.JSONEq(t, `"wontfix"`, string(described.Options.Metadata["resolution"]))
	require.Contains(t, sojourn(t, "ls", "--query", "WorkflowId = '"+h.ID()+"'"), "Filed")

	away := runProgram(t, "sojourn", "", []string{"AWS_ENDPOINT_URL_S3=http://" + teststack.ClosedAddress(t), "AWS_MAX_ATTEMPTS=1"}, "ls", "--limit", "1000")
	require.Zero(t, away.code, "lists need no archive: %s", away.err)
	require.Contains(t, away.out, "Login bug", "it has the title of the close")
	require.Contains(t, away.err, "may be as they were closed")

	refused := runProgram(t, "sojourn", "", nil, "configure", h.ID(), "--title", "No", "--permission", "deny")
	require.Equal(t, 3, refused.code, "of a closed session nothing else can be changed: %s", refused.err)
	_, err = h.Configure(ctx, session.Configure{Title: &title})
	require.ErrorIs(t, err, session.ErrClosed, "its handle stays closed")

	again, err := c.Open(ctx, h.ID(), session.Options{})
	require.NoError(t, err)
	i, err := again.Inspect(ctx)
	require.NoError(t, err)
	require.Equal(t, "Filed", i.Title)
	require.Equal(t, []string{"auth", "done"}, i.Options.Tags)
	require.JSONEq(t, `"wontfix"`, string(i.Options.Metadata["resolution"]))
	after, err = c.Amend(ctx, h.ID(), session.Amendment{Title: &title})
	require.NoError(t, err)
	require.Equal(t, title, after.Title, "so is one that is open")
}

func bagOf(t *testing.T, bag map[string]json.RawMessage) string {
	t.Helper()
	data, err := json.Marshal(bag)
	require.NoError(t, err)
	return string(data)
}
