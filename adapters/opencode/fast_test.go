package opencode

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// The fast path reads what the decoder reads.
func FuzzFastDelta(f *testing.F) {
	for _, delta := range []string{`"x"`, `""`, `"a\nb"`, `"\ud83d\ude00"`, `"`, `"x"}}`, `7`, `"\""`} {
		f.Add(`{"id":"evt_1","type":"message.part.delta","properties":{"sessionID":"s","messageID":"m","partID":"p","field":"text","delta":` + delta + `}}`)
	}
	f.Add(`{"id":"evt_1","type":"message.part.delta","properties":{"sessionID":"s","messageID":"m","partID":"p","field":"text","delta":"x","partID":"q"}}`)
	f.Add(`{"id":"evt_` + "\x13" + `","type":"message.part.delta","properties":{"sessionID":"s","messageID":"m","partID":"p","field":"text","delta":"x"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if fastType(text) != "message.part.delta" {
			return
		}
		p, ok := fastDelta(text)
		if !ok {
			return
		}
		l, err := decodeLine([]byte(text))
		require.NoError(t, err)
		require.Equal(t, *l.Properties, p)
	})
}

// The recordings take the fast path, with what the server writes around them.
func TestFastPathIsTaken(t *testing.T) {
	t.Parallel()
	taken := 0
	for _, r := range conversationOf(3) {
		if fastType(r.Line) == "message.part.delta" {
			p, ok := fastDelta(r.Line)
			require.True(t, ok)
			require.Equal(t, "text", p.Field)
			taken++
		}
	}
	require.NotZero(t, taken)
	line := `{"id":"evt_1","type":"plugin.added","properties":{"id":`
	tr, err := newTranslator(launch(), nil)
	require.NoError(t, err)
	require.Len(t, tr.Step(traffic.Record{Dir: event.DirOut, Line: line}), 1, "a torn line is told")
	require.Empty(t, tr.Step(traffic.Record{Dir: event.DirOut, Line: line + `"x"}}`}))
	require.False(t, json.Valid([]byte(line)))
}
