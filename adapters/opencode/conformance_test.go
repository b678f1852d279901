package opencode

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/test/adaptertest"
	"github.com/sojourn-run/sojourn/test/skip"
)

// conforming is what the suite must know of the agent.
func conforming(t *testing.T) adaptertest.Agent {
	return adaptertest.Agent{
		// The adapter ends it after half a minute, for which
		// TestRetriesEndByThemselves waits.
		Adapter: New(), RetriesForever: true,
		Model: "modelsim/scripted", OtherModel: "modelsim/other",
		Files: func(_ adapters.Launch, files []adapters.File) []adapters.File { return withOtherModel(t, files) },
		Rules: rules,
		Question: adaptertest.Question{
			Script: `CALL question {"questions":[{"question":"Which color?","header":"Color","options":[` +
				`{"label":"Red","description":"r"},{"label":"Blue","description":"b"}]}]} THEN SAY answered`,
			Answer: func(event.PermissionRequested) json.RawMessage { return json.RawMessage(`{"answers":[["Blue"]]}`) },
			Heard:  "Blue",
		},
		Tool:    func(server, tool string) string { return server + "_" + tool },
		Hostile: hostile, Instructions: "AGENTS.md",
		Missing: map[string]string{
			"subagent-background": "a subagent is always waited for",
			"kill-writing":        "its transcript is a database, which takes back what a kill has cut",
		},
	}
}

// withOtherModel adds a second model to the scripted provider, and declares that
// the first one sees images.
func withOtherModel(t *testing.T, files []adapters.File) []adapters.File {
	for i, f := range files {
		if f.Path != configDir+"/opencode.json" {
			continue
		}
		var c map[string]any
		require.NoError(t, json.Unmarshal(f.Data, &c))
		sees := map[string]any{"input": []string{"text", "image"}, "output": []string{"text"}}
		c["provider"] = map[string]any{"modelsim": map[string]any{"models": map[string]any{
			"scripted": map[string]any{"modalities": sees},
			"other":    map[string]any{"tool_call": true, "limit": map[string]any{"context": 200000, "output": 8192}}}}}
		data, err := json.Marshal(c)
		require.NoError(t, err)
		files[i].Data = data
	}
	return files
}

func TestConformance(t *testing.T) { adaptertest.Run(t, conforming(t)) }

func TestParityFresh(t *testing.T) { adaptertest.Fresh(t, conforming(t)) }

// A workspace's plugins are loaded though what they use cannot be installed, as in a closed
// network, and the program installs nothing in its own folder.
func TestPluginsInAClosedNetwork(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, its conformance suite")
	t.Parallel()
	r := adaptertest.New(t, conforming(t), adaptertest.Options{})
	for name, text := range map[string]string{
		".npmrc":        "registry=http://127.0.0.1:9/\n",
		"plugin/own.js": "import { writeFileSync } from \"node:fs\"\nwriteFileSync(\"loaded\", \"\")\nexport const Own = async () => ({})\n",
	} {
		file := filepath.Join(r.Workspace(), ".opencode", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	r.Start()
	require.Nil(t, r.Ask("SAY hi").Error)
	require.FileExists(t, filepath.Join(r.Workspace(), "loaded"))
	r.Finish()
	modules, err := os.ReadDir(filepath.Join(r.Home(), configDir, "node_modules"))
	require.NoError(t, err)
	require.Len(t, modules, 1, "nothing but what says so")
}

// A model that stays overloaded is retried a few times and then fails the turn
// with the name of the failure, without an interrupt.
func TestRetriesEndByThemselves(t *testing.T) {
	skip.InShort(t, "the program waits between its retries")
	t.Parallel()
	r := adaptertest.New(t, conforming(t), adaptertest.Options{})
	r.Start()
	require.Nil(t, r.Ask("SAY before").Error)
	requests := r.Model.Stats().Total
	idle := r.Ask("ERR529")
	require.NotNil(t, idle.Error, "the turn did not fail")
	require.False(t, idle.Interrupted)
	require.Equal(t, "api_error", idle.Error.Code)
	require.Contains(t, idle.Error.Message, "scripted error 529")
	blocks := r.Blocks(event.BlockError)
	require.Len(t, blocks, 1)
	require.Equal(t, idle.Error.Message, *blocks[0].Message)
	require.Equal(t, maxRetries+1, r.Model.Stats().Total-requests, "the first request and its repeats")
	require.Nil(t, r.Ask("SAY well again").Error)
	require.Equal(t, "well again", r.Said())
	r.Finish()
}
