package acp

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/test/adaptertest"
	"github.com/sojourn-run/sojourn/test/skip"
)

// program is the adapter on a host whose settings name a program.
type program struct {
	*Adapter
	line, files string
}

func (p program) Locate(getenv func(string) string) (string, error) {
	return p.Adapter.Locate(func(name string) string {
		switch name {
		case ProgramVariable:
			return p.line
		case FilesVariable:
			return p.files
		}
		return getenv(name)
	})
}

// openCode is a real program that this package does not know. Its own settings
// make it ask before it acts, and give it two models.
func openCode() adaptertest.Agent {
	return adaptertest.Agent{
		Adapter: program{
			Adapter: New(),
			line:    "OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_LSP_DOWNLOAD=1 opencode acp",
			files:   ".local/share/opencode/opencode.db*:.local/share/opencode/storage/*/*",
		},
		Env:    []string{},
		Shared: true,
		// It retries without reporting that in the protocol.
		RetriesSilently: true,
		OtherModel:      "modelsim/other",
		Profile: adapters.Profile{Workspace: map[string]string{"opencode.json": `{
			"$schema": "https://opencode.ai/config.json",
			"permission": {"bash": "ask", "edit": "ask"},
			"provider": {"modelsim": {"models": {"scripted": {"modalities": {"input": ["text", "image"], "output": ["text"]}}, "other": {"tool_call": true, "reasoning": true, "limit": {"context": 200000, "output": 8192}}}}}
		}`}},
		Missing: map[string]string{
			"tool-failure":          "a command that fails is told like one that succeeds",
			"permission-deny-heard": "the protocol has no place for the words of a denial",
			"big-line":              "the scenario's tool comes by a bundled MCP server, of which the protocol's launch knows nothing",
			"profile":               "where a program looks for its instructions is not known: such a profile is refused",
			"system-prompt":         "the protocol has no place for it",
			"resume-other-host":     boundToItsFolder,
			"resume-young":          boundToItsFolder,
			"kill-host":             boundToItsFolder,
		},
	}
}

const boundToItsFolder = "OpenCode's sessions belong to the folder that they were begun in, and only the protocol is known here: " +
	"a session elsewhere begins anew, and says so"

func TestConformance(t *testing.T) { adaptertest.Run(t, openCode()) }

func TestParityFresh(t *testing.T) { adaptertest.Fresh(t, openCode()) }

// If a program opens a session in another place and can't work in it, the session
// is replaced after the first failure, and the conversation says so.
func TestMovedSessionBeginsAnew(t *testing.T) {
	skip.InShort(t, "TestConformance resumes on another host")
	t.Parallel()
	r := adaptertest.New(t, openCode(), adaptertest.Options{})
	r.Start()
	require.Nil(t, r.Ask("SAY remember-the-first").Error)
	r.Move()
	require.True(t, r.Launch.Resume)
	require.NotNil(t, r.Ask("SAY into the void").Error)
	require.Nil(t, r.Ask("SAY well again").Error)
	require.Equal(t, "well again", r.Said())
	require.True(t, slices.ContainsFunc(r.Blocks(event.BlockSystem), func(b event.Block) bool { return b.Subtype == "session_lost" }))
	r.Restart()
	require.Nil(t, r.Ask("RECALL").Error)
	require.Contains(t, r.Said(), "well again")
	r.Finish()
}

// Another program with the same adapter: only the settings differ.
func TestAnotherProgram(t *testing.T) {
	skip.InShort(t, "TestConformance has one program")
	t.Parallel()
	agent := adaptertest.Agent{
		Adapter: program{Adapter: New(), line: "GEMINI_CLI_NO_RELAUNCH=true gemini --acp --skip-trust --yolo"},
		Profile: adapters.Profile{Workspace: map[string]string{".gemini/settings.json": `{
			"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"enableAutoUpdate": false},
			"telemetry": {"enabled": false}, "privacy": {"usageStatisticsEnabled": false},
			"tools": {"shell": {"enableInteractiveShell": false}}
		}`}},
	}
	r := adaptertest.New(t, agent, adaptertest.Options{})
	r.Start()
	require.Nil(t, r.Ask("SAY remember-the-first").Error)
	require.Nil(t, r.Ask("THINK about it THEN TOOL bash: echo two THEN SAY done").Error)
	require.Len(t, r.Blocks(event.BlockToolUse), 1)
	r.Restart()
	require.True(t, r.Launch.Resume)
	// What it remembers is not checked: this one forgets a session that is loaded
	// within a minute of its start.
	require.Nil(t, r.Ask("SAY goes on").Error)
	require.Equal(t, "goes on", r.Said())
	r.Finish()
}
