package session

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/test/teststack"
)

// watchedStore is the way to the store: put is called behind each write, and away is the error
// of a store that is not reached.
type watchedStore struct {
	put  func()
	away error
}

func (w *watchedStore) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.away != nil {
		return nil, w.away
	}
	reply, err := http.DefaultTransport.RoundTrip(r)
	if r.Method == http.MethodPut && w.put != nil {
		w.put()
	}
	return reply, err
}

// closedSession returns Temporal with a closed session s1, a client whose archive has its
// record, and the way to that.
func closedSession(t *testing.T) (*fakeTemporal, *Client, *watchedStore) {
	t.Helper()
	way := &watchedStore{}
	a, err := archive.Open(t.Context(), archive.Options{
		Bucket: "sojourn-session-test", Namespace: strings.ToLower(rand.Text()), Client: teststack.Client(servers.S3(t), way),
	})
	require.NoError(t, err)
	require.NoError(t, a.Setup(t.Context()))
	data := archive.ListData{ID: "s1"}
	require.NoError(t, Record{Options: Options{Agent: "claude", Title: "before", Metadata: map[string]json.RawMessage{"a": json.RawMessage(`1`)}}}.Apply(&data))
	_, err = a.CreateSession(t.Context(), data)
	require.NoError(t, err)
	f := knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	f.update = func(client.UpdateWorkflowOptions) error { return serviceerror.NewNotFound("completed") }
	c := newClient(t, f)
	c.o.Archive = a
	return f, c, way
}

func TestAmendIsRefused(t *testing.T) {
	t.Parallel()
	f, c, _ := closedSession(t)
	bad, ctx := "\xff", t.Context()
	_, err := c.Amend(ctx, "s1", Amendment{Title: &bad})
	refuses(t, "title", err)
	_, err = c.Amend(ctx, "none", Amendment{Tags: []string{"x"}})
	require.ErrorIs(t, err, ErrNotFound)
	full := map[string]json.RawMessage{"b": json.RawMessage(`"` + strings.Repeat("x", maxBag-20) + `"`)}
	_, err = c.Amend(ctx, "s1", Amendment{Metadata: full})
	require.NoError(t, err)
	_, err = c.Amend(ctx, "s1", Amendment{Metadata: map[string]json.RawMessage{"c": json.RawMessage(`"` + strings.Repeat("x", 40) + `"`)}})
	refuses(t, "metadata", err)
	_, err = newClient(t, f).Amend(ctx, "s1", Amendment{Tags: []string{"x"}})
	require.ErrorIs(t, err, ErrNoArchive)
}

// A session that is reopened while it is amended has read its record before: it is configured.
func TestAmendWhileItIsReopened(t *testing.T) {
	t.Parallel()
	f, c, way := closedSession(t)
	title := "after"
	f.update = func(client.UpdateWorkflowOptions) error {
		if len(f.updates) > 1 {
			return nil
		}
		return serviceerror.NewNotFound("completed")
	}
	way.put = func() { f.known["s1"] = execution(t, "s1", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil) }
	_, err := c.Amend(t.Context(), "s1", Amendment{Title: &title})
	require.NoError(t, err)
	require.Len(t, f.updates, 2)
	require.Equal(t, title, *f.updates[1].Args[0].(Configure).Title)
}

// One that is amended while it is reopened, behind the reading of its record, is configured when
// it is open.
func TestReopenedWhileItIsAmended(t *testing.T) {
	t.Parallel()
	f, c, _ := closedSession(t)
	_, err := c.Amend(t.Context(), "s1", Amendment{Tags: []string{"x"}})
	require.NoError(t, err)
	restored := 0
	c.o.OnBeforeRestore = func(ctx context.Context, id string, rec *Record) (bool, error) {
		rec.Options.Title = "by the hook"
		b := json.RawMessage(fmt.Sprint(2 + restored))
		_, err := c.Amend(ctx, id, Amendment{Tags: []string{}, Metadata: map[string]json.RawMessage{"a": json.RawMessage(`null`), "b": b}})
		return true, err
	}
	c.o.OnAfterRestore = func(context.Context, *Handle) { restored++ }
	f.update = func(client.UpdateWorkflowOptions) error {
		if len(f.started) > 0 {
			return nil
		}
		return serviceerror.NewNotFound("completed")
	}
	_, err = c.Open(t.Context(), "s1", Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"x"}, f.started[0].Options.Tags, "what was read")
	change := f.updates[len(f.updates)-1].Args[0].(Configure)
	require.Nil(t, change.Title, "what the hook has made stays")
	require.Equal(t, map[string]json.RawMessage{"a": json.RawMessage(`null`), "b": json.RawMessage(`2`)}, change.Metadata)
	sent, err := json.Marshal(change)
	require.NoError(t, err)
	require.JSONEq(t, `{"tags":[],"metadata":{"a":null,"b":2}}`, string(sent))

	f.update = func(client.UpdateWorkflowOptions) error { return serviceerror.NewNotFound("completed") }
	h, err := c.Open(t.Context(), "s1", Options{})
	require.ErrorContains(t, err, "is open, without what was amended meanwhile")
	require.Equal(t, "s1", h.ID())
	require.Equal(t, 2, restored)
}

// What a newer version has put into a record stays there.
func TestAnAmendmentKeepsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	title := "after"
	d := archive.ListData{ID: "s1", Carry: json.RawMessage(`{"options":{"agent":"claude","title":"before","tags":["x"],"future":{"a":1}},"native":1,"later":[2]}`)}
	require.NoError(t, amend(&d, Amendment{Title: &title}))
	require.JSONEq(t, `{"options":{"agent":"claude","title":"after","tags":["x"],"metadata":null,"future":{"a":1}},"native":1,"later":[2]}`, string(d.Carry))
	require.Equal(t, title, d.Title)
	rec, err := RecordOf(d)
	require.NoError(t, err)
	require.Equal(t, title, rec.Options.Title)
}

// A list without an archive has closed sessions as they were, and says so.
func TestListOfClosedSessions(t *testing.T) {
	t.Parallel()
	f, c, way := closedSession(t)
	title := "after"
	_, err := c.Amend(t.Context(), "s1", Amendment{Title: &title, Tags: []string{"done"}})
	require.NoError(t, err)
	f.list = func(*workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
		info := execution(t, "s1", enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, nil)
		info.CloseTime = timestamppb.Now()
		return &workflowservice.ListWorkflowExecutionsResponse{Executions: []*workflowpb.WorkflowExecutionInfo{info}}, nil
	}
	page, err := c.List(t.Context(), ListOptions{})
	require.NoError(t, err)
	require.Empty(t, page.Faults)
	require.Equal(t, "after", page.Sessions[0].Title)
	require.Equal(t, []string{"done"}, page.Sessions[0].Tags)

	terminated := execution(t, "s1", enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, nil)
	terminated.CloseTime = timestamppb.New(time.Now().Add(time.Hour))
	page = Page{Sessions: []Summary{{SessionID: "s1", Title: "at its end", ClosedAt: terminated.CloseTime.AsTime()}}}
	require.Empty(t, c.amendedSince(t.Context(), []*described{{WorkflowExecutionInfo: terminated}}, page.Sessions))
	require.Equal(t, "at its end", page.Sessions[0].Title, "the record is older than the end of a terminated one")

	way.away = errors.New("no way to the store")
	page, err = c.List(t.Context(), ListOptions{})
	require.NoError(t, err)
	require.Len(t, page.Sessions, 1)
	require.Contains(t, strings.Join(page.Faults, ""), "as they were closed")
}

// What is changed of a closed session is no activity of it.
func TestAnAmendmentIsNoActivity(t *testing.T) {
	t.Parallel()
	closed := time.Now()
	data := archive.ListData{ID: "s1", UpdatedAt: closed.Add(time.Hour)}
	require.NoError(t, Record{}.Apply(&data))
	require.Equal(t, closed, archivedSummary(archive.ClosedSession{ListData: data, ClosedAt: closed}).LastActivity)
}
