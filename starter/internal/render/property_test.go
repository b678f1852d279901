package render_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/jsonl"
	"github.com/sojourn-run/sojourn/starter/internal/render"
)

// voice is one conversation with output: a text of its own letter.
type voice struct {
	conversation, id, letter string
	text, said               string
}

// For any order of the deltas of several conversations, every shown line is of
// one of them alone and has its name, and each text is shown whole and in order.
func TestLinesAreAttributed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		voices := []*voice{{conversation: event.Main, id: "m", letter: "m"}}
		var events []event.Event
		for _, name := range []string{"a", "b", "c"}[:1+rng.IntN(3)] {
			voices = append(voices, &voice{conversation: "t-" + name, id: "x", letter: name})
			events = append(events, event.Event{Payload: event.SubagentSpawned{ToolUseID: "t-" + name, SubagentType: "agent-" + name}})
		}
		for _, v := range voices {
			v.text = speech(rng, v.letter)
			events = append(events, v.upsert("", event.StatusPending))
		}
		events = append(events, interleave(rng, voices)...)
		out := live(t, events, render.Options{Color: seed%2 == 0, Width: int(seed%3) * 40})
		requireAttributed(t, strip(out), voices, fmt.Sprint("seed ", seed, "\n", out))
	}
}

func (v *voice) upsert(text string, s event.BlockStatus) event.Event {
	return event.Event{
		Context: event.Context{ConversationID: v.conversation},
		Payload: event.BlockUpsert{Block: event.Block{ID: v.id, Type: event.BlockAssistantText, Content: &text, Status: s}},
	}
}

// speech returns lines of one letter, so that its origin can be seen; its words
// are numbered.
func speech(rng *rand.Rand, letter string) string {
	var b strings.Builder
	for i := range 5 + rng.IntN(40) {
		fmt.Fprintf(&b, "%s%d%s", letter, i, []string{" ", " ", "\n", "\n\n"}[rng.IntN(4)])
	}
	return strings.TrimSpace(b.String())
}

// interleave emits the voices in pieces, at random, until all have ended.
func interleave(rng *rand.Rand, voices []*voice) []event.Event {
	var events []event.Event
	open := append([]*voice(nil), voices...)
	for len(open) > 0 {
		i := rng.IntN(len(open))
		v := open[i]
		rest := v.text[len(v.said):]
		if rest == "" {
			events = append(events, v.upsert(v.text, event.StatusComplete))
			open = append(open[:i], open[i+1:]...)
			continue
		}
		piece := rest[:1+rng.IntN(min(len(rest), 12))]
		v.said += piece
		events = append(events, event.Event{
			Context: event.Context{ConversationID: v.conversation},
			Payload: event.BlockDelta{BlockID: v.id, Delta: piece},
		})
	}
	return events
}

func requireAttributed(t *testing.T, out string, voices []*voice, msg string) {
	t.Helper()
	heard := map[string][]string{}
	for line := range strings.Lines(out) {
		name, words, isAgent := strings.Cut(strings.TrimSpace(line), "│")
		if !isAgent {
			name, words = event.Main, name
		}
		if strings.HasPrefix(name, "◆") || strings.HasPrefix(words, "◆") {
			continue
		}
		heard[strings.TrimSpace(name)] = append(heard[strings.TrimSpace(name)], strings.Fields(words)...)
	}
	for _, v := range voices {
		name := "agent-" + v.letter
		if v.conversation == event.Main {
			name = event.Main
		}
		// A line may be broken within a word when many wait for its end, so the
		// words are compared without their spaces.
		require.Equal(t, strings.Join(strings.Fields(v.text), ""), strings.Join(heard[name], ""), msg)
	}
}

// strip removes the colours.
func strip(s string) string {
	var b strings.Builder
	for s != "" {
		before, after, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			break
		}
		_, s, _ = strings.Cut(after, "m")
	}
	return b.String()
}

// Showing any events does not panic, and no control character of theirs reaches a
// pipe.
func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"type":"block:upsert","payload":{"block":{"id":"a","type":"tool_use","input":{"command":"\u001b[2J"}}}}`))
	f.Add([]byte(`{"type":"subagent:spawned","payload":{"toolUseId":"main","subagentType":"\u0007"}}`))
	f.Add([]byte(`{"type":"block:upsert","payload":{"block":{"id":"a","type":"thinking","content":"x"}},"context":{"conversationId":"s"}}
{"type":"block:delta","payload":{"blockId":"a","delta":"\r\n\n\ty"},"context":{"conversationId":"s"}}
{"type":"permission:requested","payload":{"requestId":"r\u001b"}}
{"type":"query:failed","payload":{"executionId":"x","error":{"message":"a\u0000b"}}}`))
	f.Fuzz(func(t *testing.T, lines []byte) {
		var out bytes.Buffer
		p := render.New(&out, render.Options{Width: 30})
		for e, err := range jsonl.Decode(bytes.NewReader(lines)) {
			if err != nil {
				break
			}
			require.NoError(t, p.Event(e))
		}
		require.NoError(t, p.Flush())
		for _, r := range out.String() {
			require.False(t, unicode.IsControl(r) && r != '\n' && r != '\t', "%q", out.String())
		}
	})
}

var errFull = errors.New("disk is full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriteErrorIsKept(t *testing.T) {
	t.Parallel()
	p := render.New(full{}, render.Options{})
	text := "x"
	e := event.Event{Payload: event.BlockUpsert{Block: event.Block{ID: "a", Type: event.BlockSystem, Message: &text}}}
	require.ErrorIs(t, p.Event(e), errFull)
	require.ErrorIs(t, p.Flush(), errFull)
}

func TestFigures(t *testing.T) {
	t.Parallel()
	require.Equal(t, "0 ms", render.Duration(0))
	require.Equal(t, "1.5 s", render.Duration(1500*time.Millisecond))
	require.Equal(t, "2 m 05 s", render.Duration(125*time.Second))
	require.Equal(t, "3 h 01 m", render.Duration(3*time.Hour+time.Minute))
	require.Equal(t, "999", render.Count(999))
	require.Equal(t, "1.2k", render.Count(1234))
	require.Equal(t, "2.5M", render.Count(2_500_000))
	require.Equal(t, "$0.0012", render.Cost(new(0.00123)))
	require.Equal(t, "$12.35", render.Cost(new(12.345678)))
	require.Equal(t, "$0.00", render.Cost(new(0.0)))
	require.Equal(t, "–", render.Cost(nil), "nobody has told what it cost")
	require.Equal(t, "1.0 s · 5 in · 7 out · $0.00", render.Usage(time.Second, event.Usage{InputTokens: 5, OutputTokens: 7}, new(0.0)))
}
