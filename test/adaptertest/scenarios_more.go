package adaptertest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

func (r *Rig) playSubagentTools() {
	r.ok("SUBAGENT TWO ANDTHEN TOOL bash: exit 4 ANDTHEN SAY sub is done THEN TWO THEN SAY outer is done")
	require.Contains(r.t, r.Said(), "outer is done")
	require.Len(r.t, r.Subagents(r.Live()), 1)
	r.ok("SUBAGENT SAY another is done THEN SAY outer is done again")
	require.Len(r.t, r.Subagents(r.Live()), 2)
	r.Parity()
	r.WithSide()
	r.Move()
	r.recalls("another is done")
}

func (r *Rig) playSubagentNested() {
	r.ok("SUBAGENT SUBAGENT TOOL bash: echo deep ANDANDTHEN SAY deep is done ANDTHEN SAY sub is done THEN SAY outer is done")
	require.Contains(r.t, r.Said(), "outer is done")
	r.Parity()
	restored, _ := r.Restored()
	require.Len(r.t, r.Subagents(restored), 2)
	r.WithSide()
}

func (r *Rig) playSubagentBackground() {
	r.ok("SUBAGENTBG TOOL bash: echo behind ANDTHEN SAY sub is done THEN WAITAGENT THEN SAY outer is done")
	require.Contains(r.t, r.Said(), "outer is done", "the turn ended while a subagent was at work\n%s", r.tail())
	require.Equal(r.t, event.ExecutionSuccess, r.Subagents(r.Live())[0].Status)
	r.Parity()
	r.WithSide()
}

func (r *Rig) playInterruptSubagent() {
	r.Send("SUBAGENT " + endless + " ANDTHEN SAY never")
	r.begunInside()
	require.NotEmpty(r.t, r.Left())
	idle := r.Interrupt()
	require.True(r.t, idle.Interrupted, "%s", pretty(idle))
	require.Empty(r.t, r.Left())
	for _, sub := range r.Live().Subagents {
		require.NotEqual(r.t, event.ExecutionRunning, sub.Status)
	}
	r.ok("SAY goes on")
}

func (r *Rig) playKillStream() {
	r.remembers()
	r.Send("SAY half THEN GATE never")
	r.atGate("never")
	r.AwaitDelta("half")
	r.killed()
	r.recalls(r.secret())
}

// remembers runs a turn and waits until it is written. An agent writes some time after
// its last record, and what a kill prevents it from writing is marked as lost.
func (r *Rig) remembers() {
	r.t.Helper()
	r.ok("SAY " + r.secret())
	r.Parity()
}

// killed kills the agent, checks the conversation, and starts the agent again.
func (r *Rig) killed() {
	r.t.Helper()
	r.Kill()
	live := r.Live()
	for _, b := range slices.Concat(live.Blocks, threadsOf(live)) {
		require.NotEqual(r.t, event.StatusPending, b.Status, "%s", pretty(b))
		require.NotEqual(r.t, event.ExecutionRunning, b.Execution, "%s", pretty(b))
	}
	r.Parity()
	r.Model.Open("never") // an agent may repeat a request that was not answered
	r.Restart()
	r.ok("SAY well again")
}

func (r *Rig) playKillTool() {
	r.remembers()
	r.Send(endless)
	r.begun(inMain)
	r.killed()
	r.recalls(r.secret())
}

func (r *Rig) playKillSubagent() {
	r.remembers()
	r.Send("SUBAGENT " + endless + " ANDTHEN SAY never")
	r.begunInside()
	r.killed()
	for _, sub := range r.Live().Subagents {
		require.NotEqual(r.t, event.ExecutionRunning, sub.Status)
	}
	r.recalls(r.secret())
}

// playKillWriting kills the agent while it writes a line of its transcript.
func (r *Rig) playKillWriting() {
	r.remembers()
	r.Kill()
	r.Tear()
	r.Restart()
	r.ok("SAY well again")
	r.recalls(r.secret())
	r.Parity()
}

// Tear adds to each transcript that only grows what a kill leaves of a line: the kernel
// writes page by page. It is the beginning of the transcript's longest line.
func (r *Rig) Tear() {
	r.t.Helper()
	home := r.place.home()
	found, err := r.agent.Adapter.Transcripts(home, r.Launch)
	require.NoError(r.t, err)
	torn := 0
	for _, t := range found {
		if t.Kind != adapters.Append {
			continue
		}
		file := filepath.Join(r.Home(), t.Path)
		data, err := os.ReadFile(file)
		require.NoError(r.t, err)
		var line []byte
		for l := range bytes.Lines(data) {
			if len(l) > len(line) {
				line = l
			}
		}
		require.NotEmpty(r.t, line)
		data = append(data, line[:len(line)*2/3]...)
		require.NoError(r.t, os.WriteFile(file, data, 0o600))
		torn++
	}
	require.NotZero(r.t, torn, "an agent whose transcripts are no lines lacks the scenario")
}

// playKillHost loses the agent and its host during a tool.
func (r *Rig) playKillHost() {
	r.remembers()
	r.Send("TOOL bash: echo half THEN " + endless)
	r.begun(inMain)
	r.Kill()
	r.Move()
	r.ok("SAY well again")
	r.recalls(r.secret())
}

// playSteer sends a message while a tool is running.
func (r *Rig) playSteer() {
	r.Send("TOOL bash: touch begun; while [ ! -e go ]; do sleep 0.05; done; echo slept THEN SAY ended")
	r.AwaitFile("begun")
	id := r.Prompt(adapters.Prompt{Text: "SAY steered", Steer: true})
	r.until("the message on its way", func() bool {
		return slices.ContainsFunc(r.parts[len(r.parts)-1].written, func(m adapters.Message) bool { return m.ID == "prompt-"+id })
	})
	require.NoError(r.t, os.WriteFile(filepath.Join(r.Workspace(), "go"), nil, 0o600))
	what := r.Await("what became of the message", func(e event.Event) bool {
		return Is[event.MessageFolded](e) || Is[event.MessageOwnTurn](e)
	})
	if own, ok := what.Payload.(event.MessageOwnTurn); ok {
		require.Equal(r.t, id, own.MessageID)
		r.t.Log("the message got a turn of its own")
		r.mu.Lock()
		r.due.asked++
		r.mu.Unlock()
	} else {
		require.Equal(r.t, id, what.Payload.(event.MessageFolded).MessageID)
	}
	r.until("the end of every turn", func() bool { return r.ends() == r.due.asked })
	r.mu.Lock()
	r.cursor = len(r.events)
	r.mu.Unlock()
	require.True(r.t, r.Heard("SAY steered"), "no request to the model has the message")
	messages := r.Blocks(event.BlockUserMessage)
	require.Len(r.t, messages, 2)
	require.Equal(r.t, "SAY steered", *messages[1].Content)
	r.recalls("SAY steered")
}

func (r *Rig) playSetModel() {
	require.NotEmpty(r.t, r.agent.OtherModel, "the adapter claims to change models, so its test must name another")
	r.ok("SAY one")
	from := len(r.Events())
	r.SetModel(r.agent.OtherModel)
	r.ok("SAY two")
	told := slices.ContainsFunc(r.Events()[from:], func(e event.Event) bool {
		switch p := e.Payload.(type) {
		case event.OptionsUpdate:
			return p.Model != nil && strings.Contains(*p.Model, r.agent.OtherModel)
		case event.MetadataUpdate:
			return strings.Contains(p.Model, r.agent.OtherModel)
		}
		return false
	})
	require.True(r.t, told, "no event reports the model")
	r.Restart()
	r.recalls("SAY one", "SAY two")
}

// pixel is an image, in base64.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func (r *Rig) playImage() {
	r.Prompt(adapters.Prompt{Text: "SAY seen", Parts: []event.Part{{Type: "image", MediaType: "image/png", Data: pixel}}})
	r.endsWell()
	require.True(r.t, r.Heard(pixel), "no request to the model has the image")
	message := r.Blocks(event.BlockUserMessage)[0]
	require.True(r.t, slices.ContainsFunc(message.Parts, func(p event.Part) bool {
		return p.Type == "image" && p.MediaType == "image/png" && p.Data == pixel
	}), "%s", pretty(message))
	r.Restart()
	r.ok("SAY again")
	require.True(r.t, r.Heard(pixel))
}

func (r *Rig) playCompact() {
	r.ok("SAY " + r.secret())
	r.ok("TOOL bash: echo two")
	r.ok(r.agent.Compact)
	r.ok("SAY three")
	require.Contains(r.t, r.Said(), "three")
	r.Parity()
	r.Restart()
	r.recalls("SAY three")
}

// demonstration is a profile with every kind of content.
var demonstration = adapters.Profile{
	ID: "demonstration", Instructions: "MARK-INSTRUCTIONS",
	Rules:      map[string]string{"style": "MARK-RULE"},
	Skills:     map[string]map[string]string{"labskill": {"SKILL.md": "---\nname: labskill\ndescription: MARK-SKILL\n---\nbody\n"}},
	Subagents:  map[string]string{"reviewer": "---\nname: reviewer\ndescription: MARK-AGENT\n---\nYou review.\n"},
	BundledMCP: kit,
	Workspace:  map[string]string{"docs/given.txt": "given\n"},
}

// kit is an MCP server of a profile.
var kit = map[string]adapters.BundledMCP{"kit": {
	Files: map[string]string{"server.sh": mcpScript}, Start: []string{"sh", "./server.sh"}, Env: map[string]string{"KIT": "kit"}}}

// withKit is a profile with that server only.
var withKit = adapters.Profile{ID: "kit", BundledMCP: kit}

// playProfile: the model gets everything of a profile, the tools of a slow server with the
// first prompt, and the workspace only what the profile puts there.
func (r *Rig) playProfile() {
	if r.agent.Tool != nil {
		r.ok("CALL " + r.agent.Tool("kit", "echo") + ` {"text":"x"} THEN SAY called`)
		require.Contains(r.t, string(r.lastResult().Output), "from the kit")
	}
	r.ok("SAY hi")
	for _, mark := range []string{"MARK-INSTRUCTIONS", "MARK-RULE", "MARK-SKILL", "MARK-AGENT"} {
		require.True(r.t, r.Heard(mark), "no request to the model has %s", mark)
	}
	r.ok("TOOL bash: cat docs/given.txt")
	require.Contains(r.t, string(r.lastResult().Output), "given")
	entries, err := os.ReadDir(r.Workspace())
	require.NoError(r.t, err)
	for _, e := range entries {
		if e.Name() != "docs" {
			r.t.Logf("the workspace has %s", e.Name())
		}
	}
	r.Move()
	r.recalls("SAY hi")
	require.True(r.t, r.Heard("MARK-INSTRUCTIONS"))
}

// mcpScript is an MCP server with a small tool and a big one, as a shell script. It takes
// its time to start.
const mcpScript = `sleep 2; while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
  *'"initialize"'*) r='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"kit","version":"1"}}' ;;
  *'"tools/list"'*) r='{"tools":[{"name":"echo","description":"echo","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}},{"name":"big","description":"64 MiB of text","inputSchema":{"type":"object"}}]}' ;;
  *'"tools/call"'*'"name":"big"'*)
    printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"' "$id"
    head -c 67108864 /dev/zero | tr '\0' x
    printf '"}]}}\n'
    continue ;;
  *'"tools/call"'*) r="{\"content\":[{\"type\":\"text\",\"text\":\"from the $KIT\"}]}" ;;
  *) continue ;;
  esac
  [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$r"
done
`

func (r *Rig) playSystemPrompt() {
	r.ok("SAY hi")
	require.True(r.t, r.Heard("MARK-SYSTEM-PROMPT"), "no request to the model has it")
	r.Restart()
	r.ok("SAY again")
}
