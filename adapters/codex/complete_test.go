package codex

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/adaptertest"
	"github.com/sojourn-run/sojourn/test/replay"
)

const completedThread = "11111111-2222-5333-8444-555555555555"

// rolloutOf returns a home with a rollout.
func rolloutOf(t *testing.T, content string) (home adapters.DirHome, file string) {
	t.Helper()
	dir := t.TempDir()
	file = sessionsDir + "/2026/11/21/rollout-2026-11-21T05-00-00-" + completedThread + rolloutSuffix
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600))
	home, err := adapters.OpenHome(dir)
	require.NoError(t, err)
	return home, file
}

// promptLines returns the two lines of a prompt.
func promptLines(id, text string) []string {
	return []string{
		`{"timestamp":"2026-01-02T03:04:05.678Z","ordinal":7,"type":"response_item","payload":{"type":"message","id":"msg_` + id + `","role":"user","content":[{"type":"input_text","text":"` + text +
			`"}],"internal_chat_message_metadata_passthrough":{"turn_id":"turn-1","content_item_kinds":["user.text"]}}}` + "\n",
		`{"timestamp":"2026-01-02T03:04:05.679Z","ordinal":8,"type":"event_msg","payload":{"type":"item_completed","thread_id":"` + completedThread + `","turn_id":"turn-1","item":{"type":"UserMessage","id":"item-` + id +
			`","client_id":"` + id + `","content":[{"type":"text","text":"` + text + `","text_elements":[]}]},"started_at_ms":1767323045678,"completed_at_ms":1767323045678}}` + "\n",
	}
}

// A prompt is named by the first of those that were sent, begin like it, and are not in the
// rollout.
func TestCompleteNamesAPrompt(t *testing.T) {
	t.Parallel()
	begin := `{"timestamp":"2026-01-02T03:04:05.600Z","ordinal":0,"type":"session_meta","payload":{"id":"` + completedThread + `"}}` + "\n" +
		`{"timestamp":"2026-01-02T03:04:05.600Z","ordinal":1,"type":"event_msg","payload":{"type":"task_started","turn_id":"turn-1"}}` + "\n"
	one, same := promptLines("one", "go on"), promptLines("two", "go on")
	environment := strings.ReplaceAll(one[0], "user.text", "environments.environment_context")
	sent := []adapters.Unfinished{{ID: "one", Begins: "go"}, {ID: "two", Begins: "go on"}, {ID: "three"}}
	for name, c := range map[string]struct {
		written string
		sent    []adapters.Unfinished
		want    string
	}{
		"the first":            {written: begin + one[0], sent: sent, want: "one"},
		"the second":           {written: begin + one[0] + one[1] + same[0], sent: sent, want: "two"},
		"another text":         {written: begin + one[0], sent: sent[2:], want: "three"},
		"none was sent":        {written: begin + one[0]},
		"none begins like it":  {written: begin + one[0], sent: []adapters.Unfinished{{ID: "one", Begins: "stop"}}},
		"it has its item":      {written: begin + one[0] + one[1], sent: sent},
		"all are in the file":  {written: begin + one[0] + one[1] + same[0], sent: sent[:1]},
		"of the program":       {written: begin + environment, sent: sent},
		"not the last line":    {written: begin + one[0] + begin, sent: sent},
		"an empty file":        {sent: sent},
		"a line without sense": {written: begin + "{}\n", sent: sent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, file := rolloutOf(t, c.written)
			files, err := New().Complete(home, adapters.Launch{NativeID: completedThread, Unfinished: c.sent})
			require.NoError(t, err)
			if c.want == "" {
				require.Empty(t, files)
				return
			}
			require.Len(t, files, 1)
			require.Equal(t, file, files[0].Path)
			now := replay.Repaired(t, home, files[0])
			require.True(t, strings.HasPrefix(now, c.written))
			blocks := recorded.Parsed(t, memory(event.Main, now)).Blocks
			last := blocks[len(blocks)-1]
			require.Equal(t, c.want, last.ID)
			require.Equal(t, event.BlockUserMessage, last.Type)
			require.Equal(t, "go on", *last.Content)
			again, _ := rolloutOf(t, now)
			files, err = New().Complete(again, adapters.Launch{NativeID: completedThread, Unfinished: c.sent})
			require.NoError(t, err)
			require.Empty(t, files, "it has its item now")
		})
	}
}

// The added line is the one that the program writes, and the program continues behind it: its
// model has the prompt once.
func TestCompleteIsWhatTheProgramWrites(t *testing.T) {
	t.Parallel()
	r := adaptertest.New(t, conforming(), adaptertest.Options{})
	r.Start()
	r.Send("TOOL bash: touch begun; while [ ! -e go ]; do sleep 0.05; done; echo slept THEN SAY ended")
	r.AwaitFile("begun")
	image := event.Part{Type: "image", MediaType: "image/png", Data: "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}
	r.Prompt(adapters.Prompt{Text: "SAY with an image", Steer: true, Parts: []event.Part{image}})
	last := r.Prompt(adapters.Prompt{Text: "SAY the last word", Steer: true})
	require.NoError(t, os.WriteFile(filepath.Join(r.Workspace(), "go"), nil, 0o600))
	r.AwaitIdle()
	var sent []adapters.Unfinished
	for _, b := range r.Blocks(event.BlockUserMessage) {
		sent = append(sent, adapters.Unfinished{ID: b.ID, Begins: (*b.Content)[:4]})
	}
	require.Len(t, sent, 3)
	require.Equal(t, last, sent[2].ID)
	r.Kill()
	own, err := adapters.OpenHome(r.Home())
	require.NoError(t, err)
	found, err := New().Transcripts(own, r.Launch)
	require.NoError(t, err)
	file := filepath.Join(r.Home(), found[0].Path)
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	parsed := func(lines []string) reducer.State {
		return recorded.Parsed(t, memory(event.Main, strings.Join(lines, "")))
	}
	lines, prompts := strings.SplitAfter(string(content), "\n"), 0
	for i, line := range lines {
		if !strings.Contains(line, `"user.text"`) {
			continue
		}
		prompts++
		home, _ := rolloutOf(t, strings.Join(lines[:i+1], ""))
		files, err := New().Complete(home, adapters.Launch{NativeID: r.Launch.NativeID, Unfinished: sent})
		require.NoError(t, err)
		require.Len(t, files, 1)
		now := recorded.Parsed(t, memory(event.Main, replay.Repaired(t, home, files[0])))
		want := parsed(lines[:i+2])
		for _, s := range []*reducer.State{&now, &want} {
			s.Blocks[len(s.Blocks)-1].Timestamp = time.Time{} // a millisecond apart
		}
		require.Equal(t, want.Blocks, now.Blocks)
		if prompts == len(sent) {
			require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines[:i+1], "")), 0o600))
		}
	}
	require.Equal(t, len(sent), prompts)
	r.Launch.Unfinished = sent
	r.Start()
	require.Nil(t, r.Ask("RECALL").Error)
	require.Equal(t, 1, strings.Count(r.Said(), "the last word"))
	restored, faults := r.Restored()
	require.Empty(t, faults)
	require.Equal(t, last, restored.Blocks[len(restored.Blocks)-3].ID)
}
