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

// tell returns what is read of a tree, a word for each event: path, session and number.
func (s streams) tell(t *testing.T, follow bool) ([]string, error) {
	t.Helper()
	var told []string
	for ev, err := range treeEvents(t.Context(), s.read, "root", TreeOptions{Follow: follow}) {
		if err != nil {
			return told, err
		}
		told = append(told, fmt.Sprintf("%s%s%d", strings.Join(append(slices.Clone(ev.SpawnPath), ""), "/"), ev.Context.SessionID, ev.Context.Seq))
	}
	return told, nil
}

func childSpawned(id string) event.SubagentSpawned {
	return event.SubagentSpawned{ToolUseID: "spawn-" + id, ChildSessionID: id}
}

func childCompleted(id string) event.SubagentCompleted {
	return event.SubagentCompleted{ToolUseID: "spawn-" + id, ChildSessionID: id}
}

// TestTreeEventsNest: what a child does is between its parent's word of its start and of
// its end, at each level, live and stored; one that was terminated has no last event.
func TestTreeEventsNest(t *testing.T) {
	t.Parallel()
	some := event.SessionIdle{}
	s := streams{
		"root":  {some, childSpawned("child"), childCompleted("child"), some, event.SessionClosed{}},
		"child": {some, childSpawned("deep"), childCompleted("deep"), some},
		"deep":  {some, some, event.SessionClosed{}},
	}
	for _, follow := range []bool{true, false} {
		told, err := s.tell(t, follow)
		require.NoError(t, err)
		require.Equal(t, []string{
			"root1", "root2", "child/child1", "child/child2", "child/deep/deep1", "child/deep/deep2", "child/deep/deep3", "child/child3", "child/child4",
			"root3", "root4", "root5",
		}, told)
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
	told, err := s.tell(t, false)
	require.NoError(t, err)
	for _, id := range []string{"a", "b", "c"} {
		var own []string
		for _, word := range told {
			if rest, ok := strings.CutPrefix(word, id+"/"); ok {
				own = append(own, rest)
			}
		}
		require.Len(t, own, len(s[id]))
		require.IsIncreasing(t, own)
	}
	require.Greater(t, slices.Index(told, "root4"), slices.Index(told, "b/b3"))
	require.Greater(t, slices.Index(told, "root5"), slices.Index(told, "a/a3"))
}

// TestTreeEventsOfAChildWithoutStream: its events can't be read, which is said.
func TestTreeEventsOfAChildWithoutStream(t *testing.T) {
	t.Parallel()
	s := streams{"root": {childSpawned("gone"), childCompleted("gone"), event.SessionClosed{}}}
	_, err := s.tell(t, true)
	require.ErrorContains(t, err, "no such stream: gone")
}
