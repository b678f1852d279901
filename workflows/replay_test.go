package workflows

import (
	"archive/zip"
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workflows/reconcile"
)

const (
	historyDir = "testdata/history"
	// frozenDir has all histories of earlier days, a zip file for each day. Sessions from then
	// may be open for ever, so these files are never changed.
	frozenDir = "testdata/frozen"
)

// TestReplay runs today's workflow against the histories that were recorded on a real
// server, today and earlier. A change that makes one fail would break open sessions; see
// TestRecordHistories.
func TestReplay(t *testing.T) {
	t.Parallel()
	frozen, err := filepath.Glob(filepath.Join(frozenDir, "*.zip"))
	require.NoError(t, err)
	require.NotEmpty(t, frozen)
	replayAll(t, "today", os.DirFS(historyDir))
	for _, file := range frozen {
		day, err := zip.OpenReader(file)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, day.Close()) })
		replayAll(t, strings.TrimSuffix(filepath.Base(file), ".zip"), day)
	}
}

// replayAll replays the histories of a day.
func replayAll(t *testing.T, day string, tree fs.FS) {
	t.Helper()
	files, err := fs.Glob(tree, "*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(day+" "+strings.TrimSuffix(file, ".json"), func(t *testing.T) {
			t.Parallel()
			h := readHistory(t, tree, file)
			r := worker.NewWorkflowReplayer()
			r.RegisterWorkflowWithOptions(Session, workflow.RegisterOptions{Name: session.WorkflowType})
			r.RegisterWorkflowWithOptions(reconcile.Session, workflow.RegisterOptions{Name: session.ReconcileType})
			err := r.ReplayWorkflowHistoryWithOptions(quiet{}, h, worker.ReplayWorkflowHistoryOptions{
				OriginalExecution: workflow.Execution{ID: inputOf(t, h).SessionID},
			})
			require.NoError(t, err)
		})
	}
}

// A replay must be able to fail.
func TestReplayFindsAChange(t *testing.T) {
	t.Parallel()
	h := readHistory(t, os.DirFS(historyDir), "update-send.json")
	r := worker.NewWorkflowReplayer()
	r.RegisterWorkflowWithOptions(func(ctx workflow.Context, in session.Input) (session.Output, error) {
		return session.Output{}, workflow.Sleep(ctx, 1)
	}, workflow.RegisterOptions{Name: session.WorkflowType})
	require.Error(t, r.ReplayWorkflowHistory(quiet{}, h))
}

// TestEveryMessageKindHasAHistory finds each update and signal of the contract in the
// history with its name.
func TestEveryMessageKindHasAHistory(t *testing.T) {
	t.Parallel()
	kinds := messageKinds(t)
	require.GreaterOrEqual(t, len(kinds), 12)
	for _, kind := range kinds {
		file := filepath.Join(historyDir, kind+".json")
		require.FileExists(t, file, "SOJOURN_RECORD_HISTORIES=1 go test -run TestRecordHistories ./workflows, with a scene for it")
		require.Contains(t, messagesIn(readHistory(t, os.DirFS(historyDir), kind+".json")), kind)
	}
}

// messageKinds returns update-… and signal-… from the names of the contract.
func messageKinds(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "session", "names.go"), nil, 0)
	require.NoError(t, err)
	var kinds []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		value, ok := spec.Values[0].(*ast.BasicLit)
		if !ok || value.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(value.Value)
		require.NoError(t, err)
		for _, kind := range []string{"Update", "Signal"} {
			if strings.HasPrefix(spec.Names[0].Name, kind) {
				kinds = append(kinds, strings.ToLower(kind)+"-"+text)
			}
		}
		return true
	})
	return kinds
}

func messagesIn(h *historypb.History) []string {
	var kinds []string
	for _, ev := range h.GetEvents() {
		if a := ev.GetWorkflowExecutionUpdateAcceptedEventAttributes(); a != nil {
			kinds = append(kinds, "update-"+a.GetAcceptedRequest().GetInput().GetName())
		}
		if a := ev.GetWorkflowExecutionSignaledEventAttributes(); a != nil {
			kinds = append(kinds, "signal-"+a.GetSignalName())
		}
	}
	return kinds
}

func readHistory(t *testing.T, tree fs.FS, file string) *historypb.History {
	t.Helper()
	data, err := fs.ReadFile(tree, file)
	require.NoError(t, err)
	h, err := client.HistoryFromJSON(bytes.NewReader(data), client.HistoryJSONOptions{})
	require.NoError(t, err)
	return h
}

func inputOf(t *testing.T, h *historypb.History) session.Input {
	t.Helper()
	var in session.Input
	start := h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes()
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(start.GetInput(), &in))
	return in
}
