package batch

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/jobs"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
)

func fromPayloads(err *workflow.ContinueAsNewError, into any) error {
	return converter.GetDefaultDataConverter().FromPayloads(err.Input, into)
}

func TestItemIsOverItsBatch(t *testing.T) {
	t.Parallel()
	all := jobs.Input{
		Options: session.Options{Agent: "claude", Model: "big", Metadata: map[string]json.RawMessage{"team": json.RawMessage(`"a"`)}},
		Prompt:  "Read {{file}} and {{ n }}", Artifacts: []string{"out.md"},
	}
	id, in, err := parse(all, Variant{}, []byte(`{"id": "x", "vars": {"file": "a.go", "n": 3}, "options": {"model": "small", "metadata": {"item": 1}}}`), 7)
	require.NoError(t, err)
	require.Equal(t, "x", id)
	require.Equal(t, "Read a.go and 3", in.Prompt)
	require.Equal(t, "claude", in.Options.Agent)
	require.Equal(t, "small", in.Options.Model)
	require.Equal(t, []string{"out.md"}, in.Artifacts)
	require.Len(t, in.Options.Metadata, 2)
	require.Len(t, all.Options.Metadata, 1, "an item changes no other")

	for line, wants := range map[string]string{
		`nothing`:                        "line 7: is no item",
		`[1]`:                            "line 7: is no item",
		`{"promt": "x"}`:                 `unknown field "promt"`,
		`{"prompt": "{{b}}"}`:            `line 7: vars: have no "b", which the prompt names`,
		`{"vars": {"file": "x"}}`:        `have no "n"`,
		`{"prompt":"x"} {"prompt":"y"}`:  "line 7: is no item: there is more behind the object",
		`null`:                           "line 7: is no item",
		"{\"prompt\":\"caf\xe9\"}":       "line 7: is no item: it is not UTF-8",
		`{"prompt":"x","sessionId":"a"}`: `line 7: sessionId: is "a"`,
		`{"prompt":"x","repairs":11}`:    "line 7: repairs: is 11",
	} {
		id, _, err := parse(all, Variant{}, []byte(line), 7)
		require.Equal(t, "7", id)
		require.ErrorContains(t, err, wants, line)
	}
}

// A list of an item's is instead of the batch's: no element has anything of the batch's in its
// position.
func TestListsOfAnItemAreItsOwn(t *testing.T) {
	t.Parallel()
	all := func() jobs.Input {
		return jobs.Input{
			Options: session.Options{Agent: "claude", Permissions: permission.Rules{{Tool: "Bash", Match: "rm *", Answer: permission.Deny, Reason: "no"}, {Tool: "Read", Answer: permission.Deny}}},
			Prompt:  "go on", Files: []jobs.File{{Path: "run.sh", Text: "exit", Executable: true}}, Artifacts: []string{"out.md"},
		}
	}
	batch := all()
	_, in, err := parse(batch, Variant{}, []byte(`{"files": [{"path": "a.bin", "base64": "eA=="}, {"path": "b"}], "options": {"permissions": [{"tool": "Bash", "match": "ls", "answer": "allow"}]}}`), 1)
	require.NoError(t, err)
	require.Equal(t, []jobs.File{{Path: "a.bin", Base64: "eA=="}, {Path: "b"}}, in.Files)
	require.Equal(t, permission.Rules{{Tool: "Bash", Match: "ls", Answer: permission.Allow}}, in.Options.Permissions)
	require.Equal(t, []string{"out.md"}, in.Artifacts)
	require.Equal(t, all(), batch, "an item changes no other")
	_, in, err = parse(batch, Variant{}, []byte(`{"files": [], "options": {"permissions": null}}`), 2)
	require.NoError(t, err)
	require.Empty(t, in.Files)
	require.Empty(t, in.Options.Permissions)
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	require.Zero(t, quantile(nil, 50))
	require.Equal(t, int64(1), quantile([]int64{1}, 50))
	ten := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for percent, wants := range map[int]int64{50: 5, 90: 9, 99: 10, 100: 10, 1: 1} {
		require.Equal(t, wants, quantile(ten, percent), percent)
	}
}

// FuzzParse: whatever a line is, it is an item or has a reason.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{}`, `{"id":"a","vars":{"x":null},"prompt":"{{x}}"}`, `null`, `{"options":null}`, "\x00"} {
		f.Add([]byte(seed))
	}
	all := jobs.Input{Options: session.Options{Agent: "claude"}, Prompt: "go on"}
	f.Fuzz(func(t *testing.T, line []byte) {
		_, in, err := parse(all, Variant{}, line, 1)
		if err == nil {
			require.NoError(t, in.Validate())
		}
	})
}

func TestInputHasBounds(t *testing.T) {
	t.Parallel()
	require.NoError(t, Input{Items: 1, Priority: MaxPriority}.Validate())
	require.Error(t, Change{MaxCostUSD: math.NaN()}.Validate())
	require.Error(t, Change{MaxCostUSD: math.Inf(1)}.Validate())
	for want, in := range map[string]Input{
		"priority: is 6": {Items: 1, Priority: 6},
		"window: is 501": {Items: 1, Window: MaxWindow + 1},
		"attempts.*: is": {Items: 1, Attempts: map[string]int{Any: 0}},
		"items: are 0":   {},
		"sessionId: is":  {Items: 1, Job: jobs.Input{SessionID: "s1"}},
	} {
		require.ErrorContains(t, in.Validate(), want)
	}
}

// A line whose job is more than Temporal takes is invalid by its line, as is any other, and carries
// no job.
func TestLoadedItemFitsIntoAPayload(t *testing.T) {
	t.Parallel()
	files := []jobs.File{{Path: "a", Text: strings.Repeat("x", 1000<<10)}}
	m := manifest{Input: Input{Job: jobs.Input{Options: session.Options{Agent: "claude"}, Prompt: "{{x}}", Files: files}}}
	text := strings.Repeat("x", 1000<<10)
	for line, wants := range map[string]string{
		`{"vars": {"x": "small"}}`:                 "",
		`{"vars": {"x": "` + text + `"}}`:          "line 7: prompt: and all else of the job are 2048",
		`{"prompt": "` + text + text + `"}`:        "line 7: message",
		`{"prompt": "` + text + `", "repairs":11}`: "line 7: repairs",
	} {
		out := m.item(stored{Number: 7, Line: json.RawMessage(line)})
		require.Less(t, session.JSONSize(out), 2<<20)
		if wants == "" {
			require.Empty(t, out.Invalid)
			require.NotEmpty(t, out.Job.Prompt)
			continue
		}
		require.Contains(t, out.Invalid, wants)
		require.Empty(t, out.Job)
	}
}

// A file in UTF-8 as programs of Windows write it has the same items.
func TestByteOrderMarkIsNoPartOfAnItem(t *testing.T) {
	t.Parallel()
	a := openArchive(t, freshNamespace(), http.DefaultTransport)
	digest := func(id, items string) string {
		to, err := a.Batch(id)
		require.NoError(t, err)
		in, err := upload(t.Context(), to, Input{Job: jobs.Input{Options: session.Options{Agent: "claude"}, Prompt: "go"}}, strings.NewReader(items))
		require.NoError(t, err)
		return in.Digest
	}
	plain := digest("plain", "{}\n{}\n")
	require.Equal(t, plain, digest("marked", "\ufeff{}\r\n{}\r\n"))
	require.NotEqual(t, plain, digest("elsewhere", "{}\n\ufeff{}\n"), "it is one at the beginning only")
}

// unread fails the test if it is read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the items are read")
	return 0, io.EOF
}

// What is wrong with a batch itself is known before its items are read and written.
func TestABatchIsRefusedBeforeItsItems(t *testing.T) {
	t.Parallel()
	a := openArchive(t, freshNamespace(), http.DefaultTransport)
	for field, in := range map[string]Input{
		"maxCostUSD":       {MaxCostUSD: math.NaN()},
		"window":           {Window: MaxWindow + 1},
		"priority":         {Priority: MaxPriority + 1},
		"attempts.*":       {Attempts: map[string]int{Any: 0}},
		"variants[0].name": {Variants: make([]Variant, 1)},
		"sessionId":        {Job: jobs.Input{SessionID: "s1"}},
	} {
		_, err := Start(t.Context(), nil, a, "b1", in, unread{t})
		var invalid *session.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, field, invalid.Field)
	}
}
