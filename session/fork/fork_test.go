package fork_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session/fork"
)

// plain is an agent whose transcript has its events, a line each.
type plain struct{ adapters.Adapter }

func (plain) Parse(sources []adapters.Source) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, s := range sources {
			in, err := s.Open()
			if err != nil {
				yield(event.Event{}, err)
				return
			}
			lines := bufio.NewScanner(in)
			lines.Buffer(nil, 1<<24)
			for lines.Scan() {
				var ev event.Event
				if err := json.Unmarshal(lines.Bytes(), &ev); !yield(ev, err) {
					return
				}
			}
			if err := lines.Err(); err != nil {
				yield(event.Event{}, err)
				return
			}
			_ = in.Close() // it was only read
		}
	}
}

// world is an archive with sessions of such an agent.
type world struct {
	*testing.T
	a *archive.Archive
}

func newWorld(t *testing.T) world {
	t.Helper()
	a, err := archive.Open(t.Context(), archive.Options{Folder: t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, a.Setup(t.Context()))
	return world{t, a}
}

func at(seconds int) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(seconds) * time.Second)
}

// said is a block of the main conversation at a second: a user's for ids with u, a call for those
// with c, a result of it for those with r, and else the agent's text.
func said(id string, second int) event.Event {
	b := event.Block{ID: id, Type: event.BlockAssistantText, Status: event.StatusComplete}
	switch id[0] {
	case 'u':
		b.Type = event.BlockUserMessage
	case 'c':
		b.Type, b.ToolUseID, b.Execution = event.BlockToolUse, id, event.ExecutionRunning
	case 'r':
		b.Type, b.ToolUseID = event.BlockToolResult, "c"+id[1:]
	}
	if id[0] != 'c' && id[0] != 'r' {
		b.Content = new(fmt.Sprintf("%s at %d", id, second))
	}
	return event.Event{Payload: event.BlockUpsert{Block: b}, Context: event.Context{Timestamp: at(second)}}
}

// ended is the end of a call that has no result of its own.
func ended(call string, second int) event.Event {
	ev := said(call, second)
	p := ev.Payload.(event.BlockUpsert)
	p.Block.Execution = event.ExecutionSuccess
	return event.Event{Payload: p, Context: ev.Context}
}

func entry(id, after string, p event.Payload, second int) archive.ServerEntry {
	return archive.ServerEntry{ID: id, Anchor: archive.Anchor{AfterBlockID: after}, Event: event.FromServer(p, at(second))}
}

// has archives a session.
func (w world) has(id string, own []archive.ServerEntry, events ...event.Event) {
	w.Helper()
	epoch, err := w.a.TakeEpoch(w.Context(), id)
	require.NoError(w, err)
	var data bytes.Buffer
	for _, ev := range events {
		line, err := json.Marshal(ev)
		require.NoError(w, err)
		data.Write(append(line, '\n'))
	}
	_, err = w.a.AppendTranscript(w.Context(), id, epoch, adapters.Transcript{ID: event.Main, Path: "main.jsonl", Kind: adapters.Append}, 0, data.Bytes())
	require.NoError(w, err)
	require.NoError(w, w.a.AppendServerEntries(w.Context(), id, epoch, own...))
}

func (w world) events(id string) iter.Seq2[event.Event, error] {
	return w.a.Events(w.Context(), id, plain{}.Parse)
}

// blocks returns the blocks of a session's main conversation, in order.
func (w world) blocks(id string) (ids []string) {
	w.Helper()
	seen := map[string]bool{}
	for ev, err := range w.events(id) {
		require.NoError(w, err)
		id := ""
		switch p := ev.Payload.(type) {
		case event.BlockUpsert:
			id = p.Block.ID
		case event.SubagentSpawned:
			id = event.SubagentBlockID(p.ToolUseID)
		}
		if id != "" && ev.Context.Conversation() == event.Main && !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

func (w world) to(id string) fork.Copy {
	w.Helper()
	epoch, err := w.a.TakeEpoch(w.Context(), id)
	require.NoError(w, err)
	return fork.Copy{ID: id, Epoch: epoch}
}

func (w world) fork(of, id string, at ...string) fork.Kept {
	w.Helper()
	kept, err := fork.Write(w.Context(), w.a, plain{}, fork.Original{ID: of, At: at}, w.to(id))
	require.NoError(w, err)
	return kept
}

// merge makes a session of several.
func (w world) merge(id string, of ...string) fork.Joined {
	w.Helper()
	kept := w.fork(of[0], id)
	to := w.to(id)
	var others []fork.Other
	for _, o := range of[1:] {
		others = append(others, fork.Other{ID: o, Events: w.events(o)})
	}
	joined, err := fork.Join(w.Context(), w.a, kept, others, to)
	require.NoError(w, err)
	return joined
}

// A fork has the blocks up to the point, and the ends of the calls before it in its turn.
func TestR7ForkPoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.has("o", nil, said("u1", 1), said("c1", 2), said("c2", 3), said("r1", 4), said("r2", 5), said("a1", 6),
		said("u2", 7), said("c3", 8), said("a2", 9), ended("c3", 10), said("u3", 11), said("c4", 12), said("u4", 13), said("r4", 14))
	for _, tt := range []struct{ at, last string }{
		{"u1", "u1"}, {"c1", "r2"}, {"c2", "r2"}, {"r1", "r2"}, {"a1", "a1"}, {"u2", "u2"}, {"c3", "a2"}, {"a2", "a2"}, {"c4", "c4"}, {"r4", "r4"},
	} {
		kept := w.fork("o", "f-"+tt.at, tt.at)
		require.Equal(t, tt.last, kept.Last(), "at %s", tt.at)
		blocks := w.blocks("f-" + tt.at)
		require.Equal(t, tt.last, blocks[len(blocks)-1], "at %s", tt.at)
	}
	w.fork("o", "whole")
	require.Equal(t, w.blocks("o"), w.blocks("whole"))
	_, err := fork.Write(t.Context(), w.a, plain{}, fork.Original{ID: "o", At: []string{"x"}}, w.to("no"))
	require.ErrorIs(t, err, fork.ErrNoPoint)
}

// What Sojourn added behind the point is not in the fork, also if it is about something before it;
// what is has other ids, since the fork numbers its own.
func TestR7ForkOfServerEntries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	notice := event.SystemBlock("n1", "notice", "look")
	w.has("o", []archive.ServerEntry{
		entry("s3", "a1", event.SubagentSpawned{ToolUseID: "t", ChildSessionID: "child"}, 3),
		entry("s4", "subagent-block-t", notice, 4),
		entry("s9", "a2", event.SubagentCompleted{ToolUseID: "t", ChildSessionID: "child", Status: event.SubagentCompletedOK}, 9),
	}, said("u1", 1), said("a1", 2), said("u2", 5), said("a2", 6))
	require.Equal(t, []string{"u1", "a1", "subagent-block-t", "n1", "u2", "a2"}, w.blocks("o"))
	for _, at := range []string{"n1", "u2"} {
		w.fork("o", "f-"+at, at)
		require.Equal(t, w.blocks("o")[:3], w.blocks("f-" + at)[:3])
	}
	w.fork("o", "before", "a1")
	require.Equal(t, []string{"u1", "a1"}, w.blocks("before"))

	w.fork("o", "whole")
	epoch, err := w.a.Epoch(t.Context(), "whole")
	require.NoError(t, err)
	require.NoError(t, w.a.AppendServerEntries(t.Context(), "whole", epoch, entry("s3", "a2", event.SystemBlock("own", "notice", "its own"), 20)))
	require.Contains(t, w.blocks("whole"), "own")
}

// A transcript is copied in pieces, and once.
func TestForkOfALongTranscript(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var events []event.Event
	for i := range 12 {
		ev := said(fmt.Sprintf("a%d", i), i)
		p := ev.Payload.(event.BlockUpsert)
		p.Block.Content = new(strings.Repeat("x", 1<<20))
		events = append(events, event.Event{Payload: p, Context: ev.Context})
	}
	w.has("o", nil, events...)
	to := w.to("f")
	for range 2 {
		_, err := fork.Write(t.Context(), w.a, plain{}, fork.Original{ID: "o"}, to)
		require.NoError(t, err)
	}
	of, err := w.a.Transcripts(t.Context(), "o")
	require.NoError(t, err)
	copied, err := w.a.Transcripts(t.Context(), "f")
	require.NoError(t, err)
	require.Equal(t, of[0].SHA256, copied[0].SHA256)
}

// Turns are in the order in which they began, also if their messages are duplicates.
func TestR8JoinOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.has("a", nil, said("u1", 1), said("a1", 2), said("u2", 5), said("a2", 6), said("u3", 9), said("a3", 10))
	w.has("b", nil, said("u7", 3), said("a7", 4), said("u8", 7), said("a8", 8))
	require.Equal(t, "a3", w.merge("m", "a", "b").Last)
	require.Equal(t, []string{"u1", "a1", "u7", "a7", "u2", "a2", "u8", "a8", "u3", "a3"}, w.blocks("m"))

	// Several sessions between two of its turns.
	w.has("c", nil, said("u5", 3), said("a5", 3))
	w.has("d", nil, said("u4", 2), said("a4", 2))
	w.merge("several", "a", "c", "d")
	require.Equal(t, []string{"u1", "a1", "u4", "a4", "u5", "a5", "u2", "a2", "u3", "a3"}, w.blocks("several"))

	// A fork that ends at a message, and the original that answered it.
	w.fork("a", "f", "u2")
	require.Equal(t, "a3", w.merge("n", "f", "a").Last)
	require.Equal(t, w.blocks("a"), w.blocks("n"))

	// A merged session to which one of its own is merged again, with a further turn.
	w.has("b2", nil, said("u7", 3), said("a7", 4), said("u8", 7), said("a8", 8), said("u9", 20), said("a9", 21), ended("c9", 22), said("a9", 23))
	joined := w.merge("again", "m", "b2")
	require.Equal(t, "c9", joined.Last)
	require.Equal(t, append(w.blocks("m"), "u9", "a9", "c9"), w.blocks("again"))
	require.Len(t, joined.Texts, 2)
}

// Two blocks of one id are duplicates only if they are one: some agents number their calls.
func TestR8DuplicatesAreOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.has("a", nil, said("u1", 1), said("c1", 2), said("r1", 3))
	w.has("b", nil, said("u1", 4), said("c1", 5), said("r1", 6))
	w.merge("m", "a", "b")
	require.Equal(t, []string{"u1", "c1", "r1", "b/u1", "b/c1", "b/r1"}, w.blocks("m"))
	for ev := range w.events("m") {
		if p, ok := ev.Payload.(event.BlockUpsert); ok && p.Block.ID == "b/r1" {
			require.Equal(t, "b/c1", p.Block.ToolUseID)
			require.JSONEq(t, `"b"`, string(p.Block.Metadata[fork.MetadataJoined]))
			require.Equal(t, event.SourceServer, p.Block.Source)
		}
	}
	// It can be forked within what was joined.
	w.fork("m", "f", "b/u1")
	require.Equal(t, []string{"u1", "c1", "r1", "b/u1"}, w.blocks("f"))
}
