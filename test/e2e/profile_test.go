package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// mcpServer is an MCP server on stdio with one tool, which reports where the server
// runs and what it was given, but only the digest of a secret.
const mcpServer = `
const lines = require('readline').createInterface({input: process.stdin});
const reply = (id, result) => process.stdout.write(JSON.stringify({jsonrpc: '2.0', id, result}) + '\n');
const probe = () => JSON.stringify({
  name: process.argv[2], cwd: process.cwd(), installed: require('fs').existsSync('installed.txt'),
  digest: require('crypto').createHash('sha256').update(process.env.TOKEN || '').digest('hex'),
});
const answers = {
  'initialize': m => ({protocolVersion: m.params.protocolVersion, capabilities: {tools: {}}, serverInfo: {name: 'probe', version: '1'}}),
  'tools/list': () => ({tools: [{name: 'probe', description: 'tells about its server', inputSchema: {type: 'object', properties: {}}}]}),
  'tools/call': () => ({content: [{type: 'text', text: probe()}]}),
};
lines.on('line', line => {
  const m = JSON.parse(line);
  if (m.id !== undefined) reply(m.id, (answers[m.method] || (() => ({})))(m));
});
`

// writeProfile writes a store with one profile that uses every feature.
func writeProfile(t *testing.T) (store string) {
	t.Helper()
	store = t.TempDir()
	outer := filepath.Join(t.TempDir(), "outer.js")
	require.NoError(t, os.WriteFile(outer, []byte(mcpServer), 0o600))
	servers, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"outer": map[string]any{
		"command": "node", "args": []string{outer, "outer"}, "env": map[string]string{"TOKEN": "${E2E_PLANTED}"},
	}}})
	require.NoError(t, err)
	bundled, err := json.Marshal(map[string]any{
		"install": []string{"/bin/sh", "-c", "echo done > installed.txt"}, "start": []string{"node", "server.js", "bundled"},
		"env": map[string]string{"TOKEN": "${E2E_PLANTED}"},
	})
	require.NoError(t, err)
	for name, text := range map[string]string{
		"profile.json":                              `{"name": "Full", "description": "has everything", "model": "claude-opus-4-5"}`,
		"instructions.md":                           "Always mention the walrus of instructions.",
		"rules/style.md":                            "Write in the style of the heron of rules.",
		"skills/knots/SKILL.md":                     "---\nname: knots\ndescription: ties the bowline of skills\n---\nUse rope.",
		"skills/knots/rope.txt":                     "hemp",
		"agents/checker.md":                         "---\nname: checker\ndescription: checks for the badger of subagents\n---\nYou check.",
		"commands/greet.md":                         "---\ndescription: greets\n---\nSAY greetings from the command to $ARGUMENTS",
		"plugins/harbor/.claude-plugin/plugin.json": `{"name": "harbor"}`,
		"plugins/harbor/commands/dock.md":           "---\ndescription: docks\n---\nSAY docked by the plugin at $ARGUMENTS",
		"plugins/harbor/skills/buoys/SKILL.md":      "---\nname: buoys\ndescription: reads the buoys of plugins\n---\nLook out.",
		"mcp.json":                                  string(servers),
		"mcp/bundled/server.json":                   string(bundled),
		"mcp/bundled/server.js":                     mcpServer,
		"workspace/docs/start.md":                   "a file to start with",
	} {
		path := filepath.Join(store, "full", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return store
}

// newWithProfile creates a session by the command line, which has the store configured.
func newWithProfile(t *testing.T, store, agent, profile string) said {
	t.Helper()
	return runProgram(t, "sojourn", "", []string{"SOJOURN_PROFILES=" + store}, "new", "--agent", agent, "--profile", profile)
}

// openWithProfile is newWithProfile for a session that is created.
func openWithProfile(t *testing.T, store, agent, profile string) *session.Handle {
	t.Helper()
	made := newWithProfile(t, store, agent, profile)
	require.Zero(t, made.code, made.err)
	h, err := spaceOf(t).Client.Get(testContext(t), strings.TrimSpace(made.out))
	require.NoError(t, err)
	return h
}

// startProfiled starts a worker with the store and a session with the profile.
func startProfiled(t *testing.T) (*worker, *session.Handle, string) {
	t.Helper()
	secret := "planted-" + uuid.NewString()
	store := writeProfile(t)
	w := startWorker(t, "SOJOURN_PROFILES="+store, "E2E_PLANTED="+secret)
	made := newWithProfile(t, store, "claude", "full")
	require.Zero(t, made.code, made.err)
	h, err := spaceOf(t).Client.Get(testContext(t), strings.TrimSpace(made.out))
	require.NoError(t, err)
	return w, h, secret
}

// TestR96ProfileFilesReachTheAgent: the model gets the profile's texts.
func TestR96ProfileFilesReachTheAgent(t *testing.T) {
	inOwnNamespace(t)
	w, h, _ := startProfiled(t)
	require.NoError(t, say(t, h, "SAY told").Err())
	told := string(last(spaceOf(t).Model.Recorded()).Body)
	for _, want := range []string{
		"the walrus of instructions", "the heron of rules", "the bowline of skills", "the badger of subagents", "the buoys of plugins", `"model":"claude-opus-4-5"`,
	} {
		require.Contains(t, told, want)
	}
	box := filepath.Join(w.dataDir, "sandboxes", sandboxes(t, w)[0])
	require.FileExists(t, filepath.Join(box, "home", ".claude", "skills", "knots", "rope.txt"))
	entries, err := os.ReadDir(filepath.Join(box, "workspace"))
	require.NoError(t, err)
	require.Len(t, entries, 1, "the workspace has what the profile puts there, and nothing else")
	data, err := os.ReadFile(filepath.Join(box, "workspace", "docs", "start.md"))
	require.NoError(t, err)
	require.Equal(t, "a file to start with", string(data))
	require.NoError(t, h.Close(testContext(t)))
}

// TestR30InspectParts: inspect and describe name what the session's agent is made of.
func TestR30InspectParts(t *testing.T) {
	inOwnNamespace(t)
	_, h, _ := startProfiled(t)
	ctx := testContext(t)
	require.Zero(t, inspection(t, h).Parts, "there is no sandbox yet")
	require.NoError(t, say(t, h, "SAY told").Err())
	require.Equal(t, adapters.Parts{
		Instructions: true, Rules: []string{"style"}, Skills: []string{"buoys", "knots"}, Subagents: []string{"checker"},
		Commands: []string{"dock", "greet"}, MCPServers: []string{"bundled", "outer"},
	}, inspection(t, h).Parts)
	require.Contains(t, sojourn(t, "describe", h.ID()),
		"instructions; rules style; skills buoys, knots; subagents checker; commands dock, greet; MCP servers bundled, outer\n")
	require.NoError(t, h.Close(ctx))
}

// probed is the output of mcpServer's tool.
type probed struct {
	Name, Cwd, Digest string
	Installed         bool
}

// probe calls the tool of an MCP server.
func probe(t *testing.T, h *session.Handle, server string) probed {
	t.Helper()
	require.NoError(t, say(t, h, "CALL mcp__"+server+"__probe {}").Err())
	var p probed
	require.NoError(t, json.Unmarshal([]byte(lastOutput(t, h)), &p), lastOutput(t, h))
	return p
}

// lastOutput returns the text of the last tool result in the main conversation.
func lastOutput(t *testing.T, h *session.Handle) string {
	t.Helper()
	var output json.RawMessage
	for _, b := range fold(events(t, h)).Blocks {
		if b.Type == event.BlockToolResult {
			output = b.Output
		}
	}
	var text string
	if json.Unmarshal(output, &text) == nil {
		return text
	}
	var parts []struct{ Text string }
	require.NoError(t, json.Unmarshal(output, &parts), string(output))
	for _, p := range parts {
		text += p.Text
	}
	return text
}

// TestR97ProfileContents: MCP servers, bundled ones installed, and commands work. The
// values of ${NAME} are only where they are needed.
func TestR97ProfileContents(t *testing.T) {
	inOwnNamespace(t)
	w, h, secret := startProfiled(t)
	decoy := "decoy-" + uuid.NewString()
	greeted := say(t, h, "/greet "+decoy)
	require.NoError(t, greeted.Err())
	require.Equal(t, "greetings from the command to "+decoy, greeted.Result.Response)
	docked := say(t, h, "/dock pier seven")
	require.NoError(t, docked.Err())
	require.Equal(t, "docked by the plugin at pier seven", docked.Result.Response)
	digest := sha256.Sum256([]byte(secret))
	box := filepath.Join(w.dataDir, "sandboxes", sandboxes(t, w)[0])

	outer := probe(t, h, "outer")
	require.Equal(t, "outer", outer.Name)
	require.Equal(t, hex.EncodeToString(digest[:]), outer.Digest, "the variable is filled in")
	bundled := probe(t, h, "bundled")
	require.Equal(t, "bundled", bundled.Name)
	require.True(t, bundled.Installed)
	require.True(t, strings.HasPrefix(bundled.Cwd, filepath.Join(box, "home")), bundled.Cwd)
	require.Equal(t, hex.EncodeToString(digest[:]), bundled.Digest)

	requireNowhere(t, h, filepath.Join(box, "workspace"), secret, decoy)
	require.NoError(t, h.Close(testContext(t)))
	requireStored(t, filepath.Join(shared.Dir, "devstack"), secret, decoy)
	requireParity(t, h.ID())
}

// requireNowhere checks that the secret is in no event, no history and no workspace
// file. The decoy, which was in a message, shows that the search works.
func requireNowhere(t *testing.T, h *session.Handle, workspace, secret, decoy string) {
	t.Helper()
	var stream, hist bytes.Buffer
	for _, ev := range events(t, h) {
		data, err := ev.MarshalJSON()
		require.NoError(t, err)
		stream.Write(data)
	}
	it := spaceOf(t).Temporal.GetWorkflowHistory(testContext(t), h.ID(), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		ev, err := it.Next()
		require.NoError(t, err)
		data, err := ev.Marshal()
		require.NoError(t, err)
		hist.Write(data)
	}
	for name, text := range map[string]string{"stream": stream.String(), "history": hist.String()} {
		require.Contains(t, text, decoy, name)
		require.NotContains(t, text, secret, name)
	}
	require.Empty(t, filesWith(t, workspace, secret))
}

// requireStored searches everything that the servers have on disk.
func requireStored(t *testing.T, dir, secret, decoy string) {
	t.Helper()
	require.Empty(t, filesWith(t, dir, secret))
	found := filesWith(t, dir, decoy)
	require.GreaterOrEqual(t, len(found), 3, "Temporal, the stream and the archive have the decoy: %v", found)
}

// filesWith returns the files below a folder that contain a text.
func filesWith(t *testing.T, dir, text string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // a server may remove its own files meanwhile
		}
		data, err := os.ReadFile(path)
		if err == nil && bytes.Contains(data, []byte(text)) {
			found = append(found, path)
		}
		return nil
	}))
	return found
}

// TestR111ProfilesInTheArchive: a profile that is pushed is listed, loaded by every worker that
// reads the archive, with the worker's own variables, and deleted.
func TestR111ProfilesInTheArchive(t *testing.T) {
	inOwnNamespace(t)
	secret := "planted-" + uuid.NewString()
	folder := writeProfile(t)
	startWorker(t, "SOJOURN_PROFILES=archive:", "E2E_PLANTED="+secret)
	refused(t, newWithProfile(t, "archive:", "claude", "full"), 2, `profile: "full" is not in archive:`, "the id of a profile there")
	require.Contains(t, sojourn(t, "profile", "push", filepath.Join(folder, "full")), "profile full is in the archive: instructions; rules style; skills buoys, knots")
	require.NoError(t, os.RemoveAll(folder))
	h := openWithProfile(t, "archive:", "claude", "full")
	require.NoError(t, say(t, h, "/greet team").Err())
	digest := sha256.Sum256([]byte(secret))
	require.Equal(t, hex.EncodeToString(digest[:]), probe(t, h, "bundled").Digest)
	require.NoError(t, h.Close(testContext(t)))

	listing := runProgram(t, "sojourn", "", []string{"SOJOURN_PROFILES=archive:"}, "profile", "ls", "--json")
	require.Zero(t, listing.code, listing.err)
	var list []struct{ ID, Description string }
	require.NoError(t, json.Unmarshal([]byte(listing.out), &list))
	require.Equal(t, []struct{ ID, Description string }{{"full", "has everything"}}, list)
	sojourn(t, "profile", "delete", "full")
	refused(t, newWithProfile(t, "archive:", "claude", "full"), 2, `profile: "full" is not in archive:`, "the id of a profile there")
	bad := filepath.Join(t.TempDir(), "bad")
	require.NoError(t, os.MkdirAll(bad, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(bad, "profile.json"), []byte(`{"permision": "ask"}`), 0o600))
	refused(t, runProgram(t, "sojourn", "", nil, "profile", "push", bad), 1, `file profile.json: json: unknown field "permision"`, "correct the profile's files")
}

// TestR98: a session with an unknown profile is not created; one whose
// profile is removed later fails its turn by name.
func TestR98UnknownProfile(t *testing.T) {
	inOwnNamespace(t)
	store := writeProfile(t)
	w := startWorker(t, "SOJOURN_PROFILES="+store, "E2E_PLANTED=x")
	before := listed(t, session.ListOptions{Children: true})
	refused(t, newWithProfile(t, store, "claude", "nope"), 2, `profile: "nope" is not in `+store, "the id of a profile there")
	require.ElementsMatch(t, before, listed(t, session.ListOptions{Children: true}))

	made := newWithProfile(t, store, "claude", "full")
	require.Zero(t, made.code, made.err)
	require.NoError(t, os.RemoveAll(filepath.Join(store, "full")))
	id := strings.TrimSpace(made.out)
	refused(t, runProgram(t, "sojourn", "", nil, "send", id, "SAY never"), 1, `profile "full"`, "sojourn show "+id)
	require.Empty(t, sandboxes(t, w))
	sojourn(t, "close", id)
}
