package claude

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// A slash command is the last part of a message, its name ends at any blank,
// and a path is none; live and on disk it reads the same.
func TestRealCommands(t *testing.T) {
	t.Parallel()
	image := event.Part{Type: "image", MediaType: "image/png", Data: pixel}
	text := func(s string) event.Part { return event.Part{Type: "text", Text: s} }
	x := realAgent(t)
	x.start(adapters.Profile{Commands: map[string]string{"labcmd": "SAY expanded $ARGUMENTS\n"}})
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
		p.MessageID = uuid.NewString()
		x.write("p-"+p.MessageID, p)
		x.await(is[event.SessionIdle])
	}
	x.stop()
	require.Contains(t, toJSON(t, x.state()), "expanded now")
	x.requireParity()
}

// A command that is handed over while a turn runs is a text to the program.
func TestRealCommandFolded(t *testing.T) {
	t.Parallel()
	x := realAgent(t)
	x.start(adapters.Profile{})
	x.send("GATE busy THEN TOOL bash: sleep 1")
	require.NoError(t, x.model.Waiting(t.Context(), "busy"))
	folded := x.send("/stats")
	x.model.Open("busy")
	require.Equal(t, folded, x.await(is[event.MessageFolded]).Payload.(event.MessageFolded).MessageID)
	x.await(is[event.SessionIdle])
	x.stop()
	require.Contains(t, toJSON(t, x.state()), `"content":"/stats"`)
	x.requireParity()
}
