package schedules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/jobs"
	"github.com/sojourn-run/sojourn/session"
)

func TestSpecIsValidated(t *testing.T) {
	t.Parallel()
	job := &jobs.Input{Options: session.Options{Agent: "claude"}, Prompt: "go"}
	message := &Message{SessionID: "s1", Options: session.Options{Agent: "claude"}, Prompt: "go"}
	require.NoError(t, Spec{Job: job, Cron: []string{"0 9 * * 1-5"}, Zone: "Europe/Berlin"}.Validate())
	require.NoError(t, Spec{Message: message, Every: time.Hour, Overlap: "buffer-one"}.Validate())
	for wants, s := range map[string]Spec{
		"job: and message":        {Every: time.Hour},
		"cron: and every":         {Job: job},
		"every: is 1ms":           {Job: job, Every: time.Millisecond},
		"has 4 fields":            {Job: job, Cron: []string{"0 9 * *"}},
		`overlap: is "never"`:     {Job: job, Every: time.Hour, Overlap: "never"},
		"zone: unknown time zone": {Job: job, Every: time.Hour, Zone: "Mars"},
		"jitter: or catchUp":      {Job: job, Every: time.Hour, Jitter: -1},
		"agent: is empty":         {Job: &jobs.Input{Prompt: "go"}, Every: time.Hour},
		`sessionId: is "s1", and`: {Job: &jobs.Input{Options: session.Options{Agent: "claude"}, Prompt: "go", SessionID: "s1"}, Every: time.Hour},
		"sessionId":               {Message: &Message{}, Every: time.Hour},
		`sandbox: is "parent"`:    {Message: &Message{SessionID: "s1", Options: session.Options{Agent: "claude", Sandbox: session.SandboxParent}, Prompt: "go"}, Every: time.Hour},
	} {
		require.ErrorContains(t, s.Validate(), wants)
	}
}

func TestOverlapsAreNamed(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"allow", "buffer-all", "buffer-one", "cancel", "skip", "terminate"}, Overlaps())
}
