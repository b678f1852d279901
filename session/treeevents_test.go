package session

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

// streams are the events of sessions, each of which stays open when it is followed.
type streams map[string][]event.Payload

func (s streams) read(ctx context.Context, id string, after uint64, follow bool) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for i, p := range s[id] {
			if seq := uint64(i + 1); seq > after && !yield(event.Event{Context: event.Context{SessionID: id, Seq: seq}, Payload: p}, nil) {
				return
			}
		}
		if _, known := s[id]; !known {
			yield(event.Event{}, errors.New("no such stream: "+id))
			return
		}
		if _, closed := s[id][len(s[id])-1].(event.SessionClosed); follow && !closed {
			<-ctx.Done()
			yield(event.Event{}, ctx.Err())
		}
	}
}

// readTree returns what is read of a tree, a word for each event: path, session and number.
func (s streams) readTree(t *testing.T, follow bool) ([]string, error) {
	t.Helper()
	var words []string
	for ev, err := range treeEvents(t.Context(), s.read, "root", TreeOptions{Follow: follow}) {
		if err != nil {
			return words, err
		}
		words = append(words, fmt.Sprintf("%s%s%d", strings.Join(append(slices.Clone(ev.SpawnPath), ""), "/"), ev.Context.SessionID, ev.Context.Seq))
	}
	return words, nil
}

func childSpawned(id string) event.SubagentSpawned {
	return event.SubagentSpawned{ToolUseID: "spawn-" + id, ChildSessionID: id}
}

func childCompleted(id string) event.SubagentCompleted {
	return event.SubagentCompleted{ToolUseID: "spawn-" + id, ChildSessionID: id}
}

// TestTreeEventsNest: what a child does is between the events of its start and its end, at each level, live and stored; one that was terminated has no last event.
func TestTreeEventsNest(t *testing.T) {
	t.Parallel()
	some := event.SessionIdle{}
	s := streams{
		"root":  {some, childSpawned("child"), childCompleted("child"), some, event.SessionClosed{}},
		"child": {some, childSpawned("deep"), childCompleted("deep"), some},
		"deep":  {some, some, event.SessionClosed{}},
	}
	for _, follow := range []bool{true, false} {
		words, err := s.readTree(t, follow)
		require.NoError(t, err)
		require.Equal(t, []string{
			"root1", "root2", "child/child1", "child/child2", "child/deep/deep1", "child/deep/deep2", "child/deep/deep3", "child/child3", "child/child4",
			"root3", "root4", "root5",
		}, words)
	}
}

// TestTreeEventsOfChildrenAtOnce: each child's events are in order, and none is missing,
// also of a child without an end.
func TestTreeEventsOfChildrenAtOnce(t *testing.T) {
	t.Parallel()
	some := event.SessionIdle{}
	s := streams{
		"root": {childSpawned("a"), childSpawned("b"), childSpawned("c"), childCompleted("b"), childCompleted("a")},
		"a":    {some, some, event.SessionClosed{}}, "b": {some, some, event.SessionClosed{}}, "c": {some, some},
	}
	words, err := s.readTree(t, false)
	require.NoError(t, err)
	for _, id := range []string{"a", "b", "c"} {
		var own []string
		for _, word := range words {
			if rest, ok := strings.CutPrefix(word, id+"/"); ok {
				own = append(own, rest)
			}
		}
		require.Len(t, own, len(s[id]))
		require.IsIncreasing(t, own)
	}
	require.Greater(t, slices.Index(words, "root4"), slices.Index(words, "b/b3"))
	require.Greater(t, slices.Index(words, "root5"), slices.Index(words, "a/a3"))
}

// TestTreeEventsOfAChildWithoutStream: that its events can't be read is the error.
func TestTreeEventsOfAChildWithoutStream(t *testing.T) {
	t.Parallel()
	s := streams{"root": {childSpawned("gone"), childCompleted("gone"), event.SessionClosed{}}}
	_, err := s.readTree(t, true)
	require.ErrorContains(t, err, "no such stream: gone")
}
