package claude

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/test/adaptertest"
	"github.com/sojourn-run/sojourn/test/skip"
)

// A slash command is the last part of a message, its name ends at any blank, and
// a path is not one; live and on disk it reads the same.
func TestRealCommands(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, TestRealConversation")
	t.Parallel()
	image := event.Part{Type: "image", MediaType: "image/png", Data: pixel}
	text := func(s string) event.Part { return event.Part{Type: "text", Text: s} }
	r := started(t, adaptertest.Options{Profile: &adapters.Profile{Commands: map[string]string{"labcmd": "SAY expanded $ARGUMENTS\n"}}})
	for _, p := range []adapters.Prompt{
		{Text: "/cost", Parts: []event.Part{image}},
		{Parts: []event.Part{image, text("/cost")}},
		{Text: "/stats", Parts: []event.Part{text("more")}},
		{Text: "before it", Parts: []event.Part{text("/cost  a  b ")}},
		{Parts: []event.Part{image, text("/nosuch  x ")}},
		{Parts: []event.Part{image, text("/tmp/x  is a path ")}},
		{Parts: []event.Part{image, text("/compact")}},
		{Text: "/labcmd now", Parts: []event.Part{image}},
		{Text: "/labcmd\nnow  then"},
		{Text: "/cost\n"}, {Text: "/nosuch\tx"}, {Text: "/nosuch\nline  two "},
		{Text: "/a.b  c "}, {Text: "/"}, {Text: "/ x "}, {Text: "/foo:bar  x"}, {Text: "/ünicode  x "},
	} {
		r.Prompt(p)
		r.AwaitIdle()
	}
	r.Stop()
	require.Contains(t, toJSON(t, r.Live()), "expanded now")
	r.Finish()
}

// A command that is sent while a turn runs is a text to the program.
func TestRealCommandFolded(t *testing.T) {
	skip.InShort(t, "of what is particular to the program, TestRealConversation")
	t.Parallel()
	r := started(t, adaptertest.Options{})
	r.Send("GATE busy THEN TOOL bash: sleep 1")
	require.NoError(t, r.Model.Waiting(t.Context(), "busy"))
	folded := r.Prompt(adapters.Prompt{Text: "/stats", Steer: true})
	awaitRead(r)
	r.Model.Open("busy")
	require.Equal(t, folded, r.Await("MessageFolded", adaptertest.Is[event.MessageFolded]).Payload.(event.MessageFolded).MessageID)
	r.AwaitIdle()
	r.Stop()
	require.Contains(t, toJSON(t, r.Live()), `"content":"/stats"`)
	r.Finish()
}
