package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// TestTypeScriptWorkflowStartsAJob: a workflow in TypeScript, with nothing of ours, has a job
// as its child and gets a typed result.
func TestTypeScriptWorkflowStartsAJob(t *testing.T) {
	skip.InShort(t, "TestJobHasATypedResult starts jobs as JSON, too")
	withClaude(t)
	onSharedHost(t)
	example := filepath.Join("..", "..", "examples", "typescript")
	if _, err := os.Stat(filepath.Join(example, "lib", "main.js")); err != nil {
		skip.Without(t, "the example in TypeScript: make examples builds it")
	}
	cmd := exec.CommandContext(testContext(t), "node", filepath.Join(example, "lib", "main.js"), "codex", `TOOL bash: cat report.csv THEN SAY {"total": 1500}`)
	cmd.Env = append(cmd.Environ(), "TEMPORAL_ADDRESS="+shared.Env["TEMPORAL_ADDRESS"], "TEMPORAL_NAMESPACE="+spaceOf(t).Namespace)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var report struct {
		Total     float64
		SessionID string
	}
	require.NoError(t, json.Unmarshal(out, &report), "%s", out)
	require.InDelta(t, 1500, report.Total, 0)
	require.Equal(t, session.StatusClosed, statusOf(t, report.SessionID))
	require.Contains(t, sojourn(t, "show", report.SessionID), "rent,1200", "the agent had the file")
}
