package jobs

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/session"
)

const countSchema = `{"type":"object","required":["count"],"properties":{"count":{"type":"integer"}},"additionalProperties":false}`

// An answer's value is found whatever the agent puts around it.
func TestFind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ answer, want, mismatch string }{
		"bare":               {`{"count":1}`, `{"count":1}`, ""},
		"in words":           {"Here it is:\n\n{\"count\": 2}\nDone.", `{"count": 2}`, ""},
		"fenced":             {"So:\n```json\n{\n  \"count\": 3\n}\n```\nAll of it.", "{\n  \"count\": 3\n}", ""},
		"the last one":       {"{\"count\":1}\n\nNo, wait:\n{\"count\":4}", `{"count":4}`, ""},
		"the one that fits":  {"{\"count\":5}\n\n{\"other\":1}", `{"count":5}`, ""},
		"over lines":         {"Result:\n{\n\"count\":\n6}", "{\n\"count\":\n6}", ""},
		"none":               {"I counted seven.", "", "no JSON value"},
		"cut":                {`{"count":`, "", "no JSON value"},
		"of the wrong type":  {`{"count":"eight"}`, "", "integer"},
		"with a field more":  {`{"count":9,"more":1}`, "", "additional"},
		"a number, not this": {"42", "", "object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := find(json.RawMessage(countSchema), c.answer)
			if c.mismatch != "" {
				require.ErrorContains(t, err, c.mismatch)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
		})
	}
}

// FuzzFind: whatever an agent answers, a value that is found matches, and nothing panics.
func FuzzFind(f *testing.F) {
	f.Add("Here:\n```json\n{\"count\": 1}\n```")
	f.Add("{\"count\":1}\n[")
	f.Fuzz(func(t *testing.T, answer string) {
		got, err := find(json.RawMessage(countSchema), answer)
		if err != nil {
			return
		}
		again, err := find(json.RawMessage(countSchema), string(got))
		require.NoError(t, err)
		require.Equal(t, strings.TrimSpace(string(got)), string(again))
	})
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for pattern, names := range map[string]map[string]bool{
		"report.md":     {"report.md": true, "a/report.md": false, "report.mdx": false},
		"*.md":          {"a.md": true, "a/b.md": false},
		"out/*":         {"out/a": true, "out/a/b": false, "out": false},
		"out/**":        {"out/a": true, "out/a/b": true, "in/a": false},
		"**/*.json":     {"a.json": true, "b/c/a.json": true, "a.txt": false},
		"a/**/b/*.go":   {"a/b/x.go": true, "a/c/d/b/x.go": true, "a/x.go": false},
		"**/**/**/**/x": {"x": true, strings.Repeat("a/", 30) + "x": true, strings.Repeat("a/", 30) + "y": false},
	} {
		require.True(t, validPattern(pattern), pattern)
		for name, want := range names {
			require.Equal(t, want, match(strings.Split(pattern, "/"), strings.Split(name, "/")), "%s of %s", name, pattern)
		}
	}
	for _, wrong := range []string{"", "/a", "a//b", "a/", "[", "a/[b"} {
		require.False(t, validPattern(wrong), wrong)
	}
}

func TestInputIsValidated(t *testing.T) {
	t.Parallel()
	good := func() Input {
		return Input{Options: session.Options{Agent: "claude"}, Prompt: "count", Files: []File{{Path: "a/b.txt", Text: "x"}}, Artifacts: []string{"out/**"}, Schema: json.RawMessage(countSchema)}
	}
	require.NoError(t, good().Validate())
	for name, c := range map[string]struct {
		spoil func(*Input)
		field string
	}{
		"no agent":                 {func(in *Input) { in.Options.Agent = "" }, "agent"},
		"no prompt":                {func(in *Input) { in.Prompt, in.Schema = "", nil }, "text"},
		"a schema that is none":    {func(in *Input) { in.Schema = json.RawMessage(`{"type":"thing"}`) }, "schema"},
		"a schema that is no JSON": {func(in *Input) { in.Schema = json.RawMessage(`{`) }, "schema"},
		"a schema of elsewhere":    {func(in *Input) { in.Schema = json.RawMessage(`{"$ref":"https://example.com/schema"}`) }, "schema"},
		"a schema too large": {func(in *Input) {
			in.Schema = json.RawMessage(`{"title":"` + strings.Repeat("x", MaxSchemaBytes) + `"}`)
		}, "schema"},
		"too many repairs":     {func(in *Input) { in.Repairs = MaxRepairs + 1 }, "repairs"},
		"a path outside":       {func(in *Input) { in.Files[0].Path = "../a" }, "files[0].path"},
		"a path from the root": {func(in *Input) { in.Files[0].Path = "/a" }, "files[0].path"},
		"a path of a byte 0":   {func(in *Input) { in.Files[0].Path = "a\x00b" }, "files[0].path"},
		"a name too long":      {func(in *Input) { in.Files[0].Path = "a/" + strings.Repeat("x", 256) }, "files[0].path"},
		"a path too long":      {func(in *Input) { in.Files[0].Path = strings.Repeat("a/", 2048) + "b" }, "files[0].path"},
		"a path below a file":  {func(in *Input) { in.Files = append(in.Files, File{Path: "a"}) }, "files[1].path"},
		"a path twice":         {func(in *Input) { in.Files = append(in.Files, in.Files[0]) }, "files[1].path"},
		"a file twice":         {func(in *Input) { in.Files[0].Base64 = "eA==" }, "files[0]"},
		"no base64":            {func(in *Input) { in.Files[0] = File{Path: "a", Base64: "%"} }, "files[0].base64"},
		"too much":             {func(in *Input) { in.Files[0].Text = strings.Repeat("x", MaxFileBytes+1) }, "files"},
		"files of a host":      {func(in *Input) { in.Options.Workspace = "/src" }, "files"},
		"no pattern":           {func(in *Input) { in.Artifacts = []string{"a", "["} }, "artifacts[1]"},
		"artifacts of a host":  {func(in *Input) { in.Files, in.Options.Workspace = nil, "/src" }, "artifacts"},
		"a parent's sandbox":   {func(in *Input) { in.Options.Sandbox = session.SandboxParent }, "sandbox"},
		"no id":                {func(in *Input) { in.SessionID = "a b" }, "sessionId"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := good()
			c.spoil(&in)
			var invalid *session.InvalidError
			require.ErrorAs(t, in.Validate(), &invalid)
			require.Equal(t, c.field, strings.TrimPrefix(invalid.Field, "message."))
		})
	}
}

// A schema of null is none: clients in other languages write it for what they leave out.
func TestSchemaOfNull(t *testing.T) {
	t.Parallel()
	var in Input
	require.NoError(t, json.Unmarshal([]byte(`{"options":{"agent":"claude"},"prompt":"count","schema":null}`), &in))
	require.NoError(t, in.Validate())
	require.Equal(t, "count", in.message().Text)
	in.Prompt = ""
	require.ErrorContains(t, in.Validate(), "text")
}
