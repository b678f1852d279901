package claude

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

func TestPromptsThatLeaveTheSessionAreRefused(t *testing.T) {
	t.Parallel()
	for text, refused := range map[string]bool{
		"/clear": true, " /clear\n": true, "/reset now": true, "/new": true,
		"clear the table": false, "say /clear": false, "/clearance": false, "/compact": false,
	} {
		line, err := encode(adapters.Launch{}, "p", adapters.Prompt{MessageID: "m1", Text: text})
		if refused {
			require.ErrorIs(t, err, adapters.ErrUnsupported, text)
			require.ErrorContains(t, err, "make a new session instead")
			continue
		}
		require.NoError(t, err, text)
		require.NotEmpty(t, line)
	}
	text := func(s string) event.Part { return event.Part{Type: "text", Text: s} }
	image := event.Part{Type: "image", MediaType: "image/png", Data: "AA=="}
	for i, c := range []struct {
		prompt  adapters.Prompt
		refused bool
	}{
		{adapters.Prompt{Parts: []event.Part{text("/clear")}}, true},
		{adapters.Prompt{Parts: []event.Part{image, text("/clear")}}, true},
		{adapters.Prompt{Text: "look", Parts: []event.Part{text("/new")}}, true},
		{adapters.Prompt{Text: "/clear", Parts: []event.Part{image}}, false},
		{adapters.Prompt{Text: "/clear", Parts: []event.Part{text("the table")}}, false},
	} {
		_, err := encode(adapters.Launch{}, "p", c.prompt)
		require.Equal(t, c.refused, errors.Is(err, adapters.ErrUnsupported), i)
	}
}
