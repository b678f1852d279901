package steering_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/steering"
)

func handed() steering.Messages {
	return steering.Messages{{ID: "m2", BlockIDs: []string{"m2", "u2"}}, {ID: "m3", BlockIDs: []string{"m3", "u3"}}}
}

func ref(id string) event.MessageRef { return event.MessageRef{MessageID: id} }

func user(id string) event.Block {
	return event.Block{ID: id, Type: event.BlockUserMessage, Status: event.StatusComplete, Content: new("more")}
}

// An agent takes a message under any of its ids, and its event gets Sojourn's id.
func TestAfter(t *testing.T) {
	t.Parallel()
	lost := user("u2")
	lost.Status, lost.Metadata = event.StatusError, map[string]json.RawMessage{"lost": json.RawMessage("true")}
	for name, c := range map[string]struct {
		ev    event.Event
		taken []string
		said  event.Payload
		own   string
	}{
		"folded":          {event.Event{Payload: event.MessageFolded{MessageRef: ref("u2")}}, []string{"m2"}, event.MessageFolded{MessageRef: ref("m2")}, ""},
		"own turn":        {event.Event{Payload: event.MessageOwnTurn{MessageRef: ref("m3")}}, []string{"m3"}, event.MessageOwnTurn{MessageRef: ref("m3")}, "m3"},
		"refused":         {event.Event{Payload: event.Error{MessageID: "u2"}}, nil, event.Error{MessageID: "m2"}, ""},
		"another fault":   {event.Event{Payload: event.Error{}}, nil, event.Error{}, ""},
		"another's":       {event.Event{Payload: event.MessageOwnTurn{MessageRef: ref("m1")}}, nil, event.MessageOwnTurn{MessageRef: ref("m1")}, ""},
		"where it is":     {event.Event{Payload: event.BlockUpsert{Block: user("u3")}}, []string{"m3"}, event.BlockUpsert{Block: user("u3")}, ""},
		"said as lost":    {event.Event{Payload: event.BlockUpsert{Block: lost}}, nil, event.BlockUpsert{Block: lost}, ""},
		"to a subagent":   {event.Event{Payload: event.BlockUpsert{Block: user("u3")}, Context: event.Context{ConversationID: "toolu_1"}}, nil, event.BlockUpsert{Block: user("u3")}, ""},
		"another message": {event.Event{Payload: event.BlockUpsert{Block: user("u1")}}, nil, event.BlockUpsert{Block: user("u1")}, ""},
	} {
		before := handed()
		after, said, own := before.After(c.ev)
		require.Equal(t, c.taken, after.Taken(), name)
		require.Equal(t, c.said, said, name)
		require.Equal(t, c.own, own, name)
		require.True(t, after.Pending(), name)
		require.Equal(t, handed(), before, name)
	}
	both, _, _ := handed().After(event.Event{Payload: event.MessageFolded{MessageRef: ref("m2")}})
	both, _, _ = both.After(event.Event{Payload: event.MessageFolded{MessageRef: ref("m3")}})
	require.False(t, both.Pending())
	require.True(t, both.Has("m3"))
	require.False(t, both.Without("m3").Has("m3"))
}

// An exited agent has taken what its transcripts have, and what it joined to that; the
// rest is sent again, whatever the agent streamed of it.
func TestPersisted(t *testing.T) {
	t.Parallel()
	state := func(ids ...string) (s reducer.State) {
		for _, id := range ids {
			s.Blocks = append(s.Blocks, user(id))
		}
		return s
	}
	for name, c := range map[string]struct {
		transcripts reducer.State
		kept, again []string
	}{
		"nothing":   {state("u1"), nil, []string{"m2", "u2", "m3", "u3"}},
		"the first": {state("u1", "u2"), []string{"m2"}, []string{"m3", "u3"}},
		"joined":    {state("u1", "m3"), []string{"m2", "m3"}, nil},
	} {
		said, _, _ := handed().After(event.Event{Payload: event.MessageFolded{MessageRef: ref("m3")}})
		kept, again := said.Persisted(c.transcripts, nil)
		require.Equal(t, c.kept, kept.Taken(), name)
		require.Equal(t, c.again, again.BlockIDs(), name)
	}
}

// A refused message is not waited for, and not taken with one that came behind it, unless
// the agent was sent it again and took it.
func TestRefused(t *testing.T) {
	t.Parallel()
	refused, _, _ := handed().After(event.Event{Payload: event.Error{MessageID: "m2"}})
	require.Equal(t, []string{"m3", "u3"}, refused.Waiting().BlockIDs())
	require.True(t, refused.Has("m2"))
	behind := reducer.State{Blocks: []event.Block{user("u3")}}
	kept, _ := refused.Persisted(behind, nil)
	require.Equal(t, []string{"m3"}, kept.Taken())
	kept, _ = handed().Persisted(behind, map[string]bool{"m2": true})
	require.Equal(t, []string{"m3"}, kept.Taken())
	again, _, _ := refused.After(event.Event{Payload: event.MessageFolded{MessageRef: ref("m2")}})
	require.Equal(t, []string{"m2"}, again.Taken())
	kept, _ = refused.Persisted(reducer.State{Blocks: []event.Block{user("m2"), user("u3")}}, map[string]bool{"m2": true})
	require.Equal(t, []string{"m2", "m3"}, kept.Taken())
}
