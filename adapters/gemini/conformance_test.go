package gemini

import (
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/test/adaptertest"
	"github.com/sojourn-run/sojourn/test/skip"
)

// conforming is what the suite must know of the agent.
func conforming() adaptertest.Agent {
	return adaptertest.Agent{
		Adapter: New(),
		Env:     []string{},
		Files:   withFewRetries,
		Model:   "gemini-2.5-pro", OtherModel: "gemini-2.5-flash",
		Rules:   rules,
		Hostile: hostile, Instructions: "AGENTS.md",
		// A file's change is sent with the whole file, before and after.
		Big: `TOOL bash: head -c 34000000 /dev/zero | tr '\0' x | fold -w 50000 > big.txt; echo >> big.txt; echo needle >> big.txt ` +
			`THEN CALL replace {"file_path":"big.txt","instruction":"x","old_string":"needle","new_string":"thread"} THEN SAY changed`,
		Missing: map[string]string{
			"permission-deny-heard": "a denial has no place for words",
			"permission-subagent":   "where it must ask, the agent refuses to start subagents",
			"subagent-nested":       "a subagent cannot start subagents",
		},
		Tool: func(server, tool string) string { return mcpPrefix + server + "_" + tool },
	}
}

// withFewRetries makes the agent retry a failing model once: its own number takes
// half a minute each time, for which TestRetriesEndByThemselves waits.
func withFewRetries(_ adapters.Launch, files []adapters.File) []adapters.File {
	for i, f := range files {
		if f.Path == configDir+"/settings.json" {
			files[i].Data = regexp.MustCompile(`"maxAttempts": \d+`).ReplaceAll(f.Data, []byte(`"maxAttempts": 2`))
		}
	}
	return files
}

func TestConformance(t *testing.T) { adaptertest.Run(t, conforming()) }

func TestParityFresh(t *testing.T) { adaptertest.Fresh(t, conforming()) }

// A model that stays overloaded is retried silently a few times, and then fails
// the turn, with the settings that sessions have.
func TestRetriesEndByThemselves(t *testing.T) {
	skip.InShort(t, "the program waits between its retries")
	t.Parallel()
	agent := conforming()
	agent.Files = nil
	r := adaptertest.New(t, agent, adaptertest.Options{})
	r.Start()
	require.Nil(t, r.Ask("SAY before").Error)
	requests := r.Model.Stats().Total
	idle := r.Ask("ERR529")
	require.NotNil(t, idle.Error, "the turn did not fail")
	require.False(t, idle.Interrupted)
	require.Contains(t, idle.Error.Message, "scripted error 529")
	require.Equal(t, 4, r.Model.Stats().Total-requests, "the first request and its repeats")
	require.Nil(t, r.Ask("SAY well again").Error)
	require.Equal(t, "well again", r.Said())
	r.Finish()
}

// leaving is the adapter for an agent whose first session was opened over a minute's end.
type leaving struct {
	*Adapter
	first *time.Time
}

func (a leaving) Translator(l adapters.Launch, state json.RawMessage) (adapters.Translator, error) {
	d := newDialect()
	d.Parted = func(asked, _ time.Time) bool {
		if a.first.IsZero() {
			*a.first = asked
		}
		return asked.Equal(*a.first)
	}
	return newTranslator(d, l, state)
}

// TestSessionIsLeft: the program opens another session in the place of one that can't be used,
// works in it, and continues it in its next process.
func TestSessionIsLeft(t *testing.T) {
	skip.InShort(t, "with two processes")
	t.Parallel()
	agent := conforming()
	agent.Adapter = leaving{New(), new(time.Time)}
	r := adaptertest.New(t, agent, adaptertest.Options{})
	r.Start()
	require.Nil(t, r.Ask("TOOL bash: echo one THEN SAY two").Error)
	require.Equal(t, "two", r.Said())
	r.Restart()
	require.Nil(t, r.Ask("RECALL").Error)
	require.Contains(t, r.Said(), "TOOL bash: echo one")
	r.Finish()
}
