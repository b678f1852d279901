package session

import (
	"crypto/rand"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer/recent"
	"github.com/sojourn-run/sojourn/test/teststack"
)

// An open session whose first events are past retention is read from the archive; its open
// requests are in the rest of the stream.
func TestShowOfAnOldSessionHasItsOpenRequests(t *testing.T) {
	t.Parallel()
	a, err := archive.Open(t.Context(), archive.Options{
		Bucket: "sojourn-session-test", Namespace: strings.ToLower(rand.Text()), Client: teststack.Client(servers.S3(t), http.DefaultTransport),
	})
	require.NoError(t, err)
	require.NoError(t, a.Setup(t.Context()))
	_, err = a.CreateSession(t.Context(), archive.ListData{ID: "s1", Agent: "claude", Title: "T"})
	require.NoError(t, err)

	log := newLog(t)
	last := emit(t, log, 0, event.PermissionRequested{RequestID: "r1", ToolName: "Bash"})
	require.NoError(t, log.Purge(t.Context(), "s1"))
	last = emit(t, log, last, event.PermissionRequested{RequestID: "r2", ToolName: "Bash"})
	last = emit(t, log, last, event.PermissionRequested{RequestID: "r3", ToolName: "Bash"})
	archived := emit(t, log, last, event.TranscriptChanged{})
	last = emit(t, log, archived, event.PermissionResolved{RequestID: "r2", Decision: "allow"})
	emit(t, log, last, event.QueryInterrupted{Query: event.Query{ExecutionID: "x9", Queued: true}})

	c, err := NewClient(ClientOptions{Temporal: knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING), Agents: builtin.Registry(), Stream: log, Archive: a})
	require.NoError(t, err)
	conv, err := c.Show(t.Context(), "s1", FromAuto)
	require.NoError(t, err)
	require.Equal(t, FromArchive, conv.From)
	require.Empty(t, conv.Faults)
	require.Len(t, conv.Asks, 1)
	require.Equal(t, "r3", conv.Asks[0].Payload.(event.PermissionRequested).RequestID)
	require.Equal(t, archived, conv.LastSeq, "what comes behind continues it")
	open, err := c.IsOpen(t.Context(), "s1")
	require.NoError(t, err)
	require.True(t, open)
}

// A session that no worker has begun yet is in Temporal alone. It is shown without a word, and
// one that was deleted is not.
func TestShowOfASessionThatHasNotBegun(t *testing.T) {
	t.Parallel()
	f := &fakeTemporal{known: map[string]*workflowpb.WorkflowExecutionInfo{
		"s1": execution(t, "s1", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, map[string]any{"SojournAgent": "claude", "SojournTitle": "T"}),
	}}
	o := stores(t)
	o.Temporal = f
	c, err := NewClient(o)
	require.NoError(t, err)
	for _, from := range []From{FromAuto, FromStream} {
		conv, err := c.Show(t.Context(), "s1", from)
		require.NoError(t, err)
		require.Equal(t, Conversation{SessionID: "s1", Agent: "claude", Title: "T", CreatedAt: conv.CreatedAt, State: recent.New(0).State(), From: FromStream}, conv)
	}
	for name, stored := range map[string]func() error{
		"show":   func() error { _, err := c.Show(t.Context(), "s1", FromArchive); return err },
		"whole":  func() error { _, err := c.Runtime(t.Context(), "s1", Timeline{}); return err },
		"files":  func() error { _, err := c.Files(t.Context(), "s1"); return err },
		"export": func() error { return c.Export(t.Context(), "s1", io.Discard) },
	} {
		require.ErrorIs(t, stored(), ErrNotBegun, name)
	}

	f.known["s1"].Status = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	_, err = c.Show(t.Context(), "s1", FromAuto)
	require.ErrorIs(t, err, ErrNotFound)
	_, err = c.Files(t.Context(), "s1")
	require.ErrorIs(t, err, ErrNotFound)
}
