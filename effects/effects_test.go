package effects

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/reducer"
)

func upsert(b event.Block) event.Event {
	return event.Event{Payload: event.BlockUpsert{Block: b}, Context: event.Context{ConversationID: event.Main, Source: event.SourceRunner}}
}

func use(id string, status event.BlockStatus, x event.Execution) event.Event {
	return upsert(event.Block{
		ID: id, Type: event.BlockToolUse, Status: status, Execution: x, ToolUseID: id, ToolName: "Bash", Input: json.RawMessage(`{"command":"do ` + id + `"}`),
	})
}

func begun(id string) event.Event { return use(id, event.StatusComplete, event.ExecutionRunning) }

func result(id string) event.Event {
	return upsert(event.Block{ID: id + ":result", Type: event.BlockToolResult, Status: event.StatusComplete, ToolUseID: id, Output: json.RawMessage(`"done"`)})
}

func settled(id string, x event.Execution) event.Event {
	return upsert(event.Block{ID: id, Type: event.BlockToolUse, Execution: x})
}

func lost(id string) event.Event {
	ev := upsert(event.Block{ID: id, Type: event.BlockToolUse, Status: event.StatusError, Execution: event.ExecutionError, Metadata: map[string]json.RawMessage{"lost": json.RawMessage("true")}})
	return ev
}

func unknownResult(id string) event.Event {
	ev := result(id)
	p := ev.Payload.(event.BlockUpsert)
	p.Block.Metadata = map[string]json.RawMessage{"effect": json.RawMessage(`"unknown"`)}
	ev.Payload = p
	return ev
}

func folded(events ...event.Event) reducer.State {
	var b reducer.Builder
	for _, ev := range events {
		b.Add(ev)
	}
	return b.State()
}

func ids(calls []Call) (out []string) {
	for _, c := range calls {
		out = append(out, c.ToolUseID)
	}
	return out
}

func TestR52UnknownEffect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		streamed, persisted []event.Event
		// unknown are the calls, marked those that must be marked.
		unknown, marked []string
	}{
		"nothing":                            {nil, nil, nil, nil},
		"a result":                           {[]event.Event{begun("a"), result("a")}, nil, nil, nil},
		"no result":                          {[]event.Event{begun("a")}, nil, []string{"a"}, []string{"a"}},
		"of two at once, one":                {[]event.Event{begun("a"), begun("b"), result("a")}, nil, []string{"b"}, []string{"b"}},
		"its input was not whole yet":        {[]event.Event{use("a", event.StatusPending, event.ExecutionPending)}, nil, nil, nil},
		"nor when its agent died":            {[]event.Event{use("a", event.StatusPending, event.ExecutionPending), lost("a")}, nil, nil, nil},
		"begun, and told as lost":            {[]event.Event{begun("a"), lost("a")}, nil, []string{"a"}, []string{"a"}},
		"settled by the agent's exit":        {[]event.Event{begun("a"), settled("a", event.ExecutionError)}, nil, []string{"a"}, []string{"a"}},
		"it needs no result":                 {[]event.Event{begun("a"), settled("a", event.ExecutionSuccess)}, nil, nil, nil},
		"settled behind its result":          {[]event.Event{begun("a"), result("a"), use("a", event.StatusComplete, event.ExecutionError)}, nil, nil, nil},
		"in the transcripts only":            {nil, []event.Event{use("a", event.StatusComplete, event.ExecutionError)}, []string{"a"}, []string{"a"}},
		"a result in the transcripts only":   {[]event.Event{begun("a")}, []event.Event{begun("a"), result("a")}, nil, nil},
		"marked at the loss before":          {[]event.Event{begun("a"), unknownResult("a"), begun("b")}, nil, []string{"a", "b"}, []string{"b"}},
		"marked by the adapter":              {[]event.Event{begun("a")}, []event.Event{begun("a"), unknownResult("a")}, []string{"a"}, nil},
		"another one under the id of a lost": {[]event.Event{begun("a"), lost("a"), unknownResult("a"), begun("a")}, nil, []string{"a"}, []string{"a"}},
		"and that one has a result":          {[]event.Event{begun("a"), lost("a"), unknownResult("a"), begun("a"), result("a")}, nil, nil, nil},
	} {
		calls := Calls{ExecutionID: "x1"}
		for _, ev := range c.streamed {
			calls.Add(ev)
		}
		calls.AddPersisted(folded(c.persisted...))
		require.Equal(t, c.unknown, ids(calls.Unknown()), name)
		var marked []string
		for _, ev := range calls.Marks(time.Unix(1, 0)) {
			b := ev.Payload.(event.BlockUpsert).Block
			require.True(t, Unknown(b) && *b.IsError && b.Source == event.SourceServer, name)
			marked = append(marked, b.ToolUseID)
		}
		require.Equal(t, c.marked, marked, name)
	}
}

// A call of an earlier execution, whose transcript never has a result for it, is not this
// one's; another one under its id is.
func TestUnknownOfAnEarlierExecution(t *testing.T) {
	t.Parallel()
	calls := Calls{ExecutionID: "x2"}
	calls.Add(begun("a"))
	calls.Add(event.Event{Payload: event.QueryStarted{Query: event.Query{ExecutionID: "x2"}}})
	calls.Add(begun("b"))
	calls.AddPersisted(folded(settled("a", event.ExecutionError), begun("b")))
	require.Equal(t, []string{"b"}, ids(calls.Unknown()))
	calls.Add(settled("c", event.ExecutionError)) // its process ended, long after its start
	calls.AddPersisted(folded(begun("c")))
	require.Equal(t, []string{"b"}, ids(calls.Unknown()))
	calls.Add(begun("a"))
	require.Equal(t, []string{"a", "b"}, ids(calls.Unknown()))
}

// An agent may give a call another name than its block's, and send it in pieces. A
// subagent's call is marked in the subagent's conversation.
func TestUnknownInPieces(t *testing.T) {
	t.Parallel()
	var calls Calls
	for _, b := range []event.Block{
		{ID: "part", Type: event.BlockToolUse, Status: event.StatusPending, ToolUseID: "call", ToolName: "bash"},
		{ID: "part", Type: event.BlockToolUse, Status: event.StatusComplete, Input: json.RawMessage(`{"command":"x"}`), Execution: event.ExecutionRunning},
	} {
		ev := upsert(b)
		ev.Context.ConversationID = "sub"
		calls.Add(ev)
	}
	require.Equal(t, []Call{{"sub", "call", "bash", json.RawMessage(`{"command":"x"}`)}}, calls.Unknown())
	mark := calls.Marks(time.Unix(1, 0))[0]
	require.Equal(t, "sub", mark.Context.ConversationID)
	calls.Add(upsert(event.Block{ID: "part:result", Type: event.BlockToolResult, ToolUseID: "call"}))
	require.Empty(t, calls.Unknown())
}

func TestWords(t *testing.T) {
	t.Parallel()
	a := Call{ToolUseID: "a", ToolName: "Bash", Input: json.RawMessage(`{ "command": "make deploy" }`)}
	long := Call{ToolUseID: "b", ToolName: "Write", Input: json.RawMessage(`{"content":"` + strings.Repeat("ä", 20_000) + `"}`)}
	require.Equal(t, `Bash (call a): {"command":"make deploy"}`, a.Words())
	require.Less(t, len(long.Words()), maxInput+40)
	require.True(t, json.Valid(Shorten([]Call{long})[0].Input))
	require.Less(t, len(Shorten([]Call{long})[0].Input), maxInput+20)
	require.Equal(t, a, Shorten([]Call{a})[0])
	require.Empty(t, Tell(nil))
	told := Tell([]Call{a, long})
	require.Contains(t, told, "\n- "+a.Words()+"\n- "+long.Words())

	content := "Go on.\n\n" + Tell([]Call{a})
	persisted := folded(upsert(event.Block{ID: "m", Type: event.BlockUserMessage, Status: event.StatusComplete, Content: &content}))
	require.Equal(t, []Call{long}, Untold([]Call{a, long}, persisted))
	persisted = folded(upsert(event.Block{ID: "m", Type: event.BlockUserMessage, Status: event.StatusComplete, Parts: []event.Part{{Type: "text", Text: content}}}))
	require.Equal(t, []Call{long}, Untold([]Call{a, long}, persisted))

	req := Request("r", []Call{a})
	require.JSONEq(t, `{"calls":["Bash (call a): {\"command\":\"make deploy\"}"]}`, string(req.Input))
}

func TestJudge(t *testing.T) {
	t.Parallel()
	rules := permission.EffectRules{{Tool: "Bash", Match: "make *", Then: permission.LossAsk}, {Tool: "Pay", Then: permission.LossFail}}
	deploy, list := Call{ToolName: "Bash", Input: json.RawMessage(`{"command":"make deploy"}`)}, Call{ToolName: "Bash", Input: json.RawMessage(`{"command":"ls"}`)}
	require.Equal(t, permission.OnLoss(""), Judge(nil, rules, nil))
	require.Equal(t, permission.LossContinue, Judge([]Call{list}, rules, nil))
	require.Equal(t, permission.LossAsk, Judge([]Call{list, deploy, list}, rules, nil))
	require.Equal(t, permission.LossFail, Judge([]Call{{ToolName: "pay"}, deploy}, rules, nil))
}

// The answer to the question counts for the calls that were asked about.
func TestJudgeAnswered(t *testing.T) {
	t.Parallel()
	rules := permission.EffectRules{{Tool: "Bash", Then: permission.LossAsk}, {Tool: "Pay", Then: permission.LossFail}}
	a, b, pay := Call{ToolUseID: "a", ToolName: "Bash"}, Call{ToolUseID: "b", ToolName: "Bash"}, Call{ToolUseID: "p", ToolName: "Pay"}
	var p permission.Parked
	p.Add(Request("q", []Call{a}), time.Unix(1, 0))
	asked := p.Requests[0]
	require.True(t, IsQuestion(asked))
	allowed, denied := []permission.Decision{{Request: asked, Allow: true}}, []permission.Decision{{Request: asked, Message: "no"}}
	own := []permission.Decision{{Request: permission.Request{ToolName: "Bash", Title: question}, Allow: true}}
	for name, c := range map[string]struct {
		calls     []Call
		decisions []permission.Decision
		want      permission.OnLoss
	}{
		"allowed":                         {[]Call{a}, allowed, permission.LossContinue},
		"another call":                    {[]Call{a, b}, allowed, permission.LossAsk},
		"a rule that fails":               {[]Call{a, pay}, allowed, permission.LossFail},
		"none is known any more":          {nil, allowed, ""},
		"denied":                          {[]Call{a}, denied, permission.LossFail},
		"denied, and none is known":       {nil, denied, permission.LossFail},
		"a request of the agent, allowed": {[]Call{a}, own, permission.LossAsk},
	} {
		require.Equal(t, c.want, Judge(c.calls, rules, c.decisions), name)
	}
	require.Equal(t, own, OfAgent(append(denied, own...)))
	require.Contains(t, WhyFails(denied), "no")
	require.Contains(t, WhyFails(own), "rule")
}
