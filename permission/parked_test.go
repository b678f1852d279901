package permission

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
)

func asks(id, tool, input string) event.PermissionRequested {
	return event.PermissionRequested{RequestID: id, ToolName: tool, Input: json.RawMessage(input)}
}

func TestPark(t *testing.T) {
	t.Parallel()
	require.Equal(t, time.Hour, Park(0).After())
	require.Zero(t, ParkNever.After())
	require.Equal(t, 2*time.Second, Park(2000).After())
	require.Positive(t, maxPark.After())
	for p, ok := range map[Park]bool{0: true, ParkNever: true, 1: true, maxPark: true, -2: false, maxPark + 1: false} {
		err := p.Validate()
		require.Equal(t, ok, err == nil, p)
		if !ok {
			require.ErrorContains(t, err, "field parkMs")
		}
	}
	require.Equal(t, Park(5), Policy{}.Over(Policy{Park: 5}).Park)
	require.Equal(t, ParkNever, Policy{Park: ParkNever}.Over(Policy{Park: 5}).Park)
}

// A decision answers the very same call, once, in whatever sandbox.
func TestTake(t *testing.T) {
	t.Parallel()
	old, folders := []string{"/sandboxes/s-e1/workspace"}, []string{"/sandboxes/s-e2/workspace"}
	p := Parked{Folders: old}
	p.Add(asks("r1", "Write", `{"file_path":"/sandboxes/s-e1/workspace/a", "content":"x"}`), time.Time{})
	_, first := p.Decide("r1", Decision{Allow: true, By: "anna"})
	require.True(t, first)
	same := `{"content":"x","file_path":"/sandboxes/s-e2/workspace/a"}`
	for name, other := range map[string]event.PermissionRequested{
		"another tool":    asks("r2", "Edit", same),
		"another content": asks("r2", "Write", strings.Replace(same, `"x"`, `"y"`, 1)),
		"another file":    asks("r2", "Write", strings.Replace(same, "/a", "/b", 1)),
		"another folder":  asks("r2", "Write", strings.Replace(same, "/sandboxes/s-e2/workspace", "/etc", 1)),
		"more":            asks("r2", "Write", strings.Replace(same, `{`, `{"mode":1,`, 1)),
	} {
		_, ok := Take(p.Decisions, other, folders)
		require.False(t, ok, name)
	}
	ds := p.MovedTo(folders)
	require.Contains(t, string(ds[0].Input), "/sandboxes/s-e2/workspace/a")
	require.Contains(t, string(p.Decisions[0].Input), "/sandboxes/s-e1/workspace/a", "what was asked stays")
	for range 2 { // the record is read again
		d, ok := Take(ds, asks("r2", "Write", same), folders)
		require.True(t, ok)
		require.Equal(t, "anna", d.By)
	}
	_, ok := Take(ds, asks("r3", "Write", same), folders)
	require.False(t, ok, "once")
}

// A person who changes the input has decided about the changed call, and not about the
// first one; the answers to a question are passed with it.
func TestTakeWhatWasChanged(t *testing.T) {
	t.Parallel()
	var p Parked
	p.Add(asks("r1", "Bash", `{"command":"rm -rf /"}`), time.Time{})
	question := asks("r2", "AskUserQuestion", `{"questions":[1]}`)
	question.Questions = json.RawMessage(`[1]`)
	p.Add(question, time.Time{})
	p.Decide("r1", Decision{Allow: true, Given: json.RawMessage(`{"command":"ls"}`)})
	p.Decide("r2", Decision{Allow: true, Given: json.RawMessage(`{"answers":["yes"]}`)})
	_, ok := Take(p.Decisions, asks("r3", "Bash", `{"command":"rm -rf /"}`), nil)
	require.False(t, ok)
	_, ok = Take(p.Decisions, asks("r3", "Bash", `{"command":"ls"}`), nil)
	require.True(t, ok)
	question.RequestID = "r4"
	d, ok := Take(p.Decisions, question, nil)
	require.True(t, ok)
	require.JSONEq(t, `{"answers":["yes"]}`, string(d.Given))
}

// A question stays one when it is too long to be stored: its answer is passed on, and no
// deadline allows it.
func TestLongQuestion(t *testing.T) {
	t.Parallel()
	p := Parked{Deadline: Deadline{AfterMS: 1, Answer: Allow}}
	long := asks("r1", "AskUserQuestion", `{}`)
	long.Questions = json.RawMessage(`["` + strings.Repeat("x", maxKept) + `"]`)
	p.Add(long, time.Time{})
	require.Less(t, len(p.Requests[0].Questions), 10)
	require.Contains(t, p.Notice(), "request r1: AskUserQuestion (what it asks for is long")
	late, _ := p.Late(time.Time{}.Add(time.Second))
	require.Len(t, late, 1)
	require.False(t, late[0].Allow)
	p.Decide("r1", Decision{Allow: true, Given: json.RawMessage(`{"answers":["yes"]}`)})
	long.RequestID = "r2"
	d, ok := Take(p.Decisions, long, nil)
	require.True(t, ok)
	require.JSONEq(t, `{"answers":["yes"]}`, string(d.Given))
	require.Contains(t, Words(p.Decisions), `answered: AskUserQuestion (what it asks for is long, and in the conversation). The answer is: {"answers":["yes"]}`)
}

func TestParkedDecide(t *testing.T) {
	t.Parallel()
	var none *Parked
	known, first := none.Decide("r1", Decision{})
	require.False(t, known || first)
	require.Empty(t, none.Open())
	var p Parked
	p.Add(asks("r1", "Bash", `{"command":"ls"}`), time.Time{})
	p.Add(asks("r2", "Write", `{"content":"`+strings.Repeat("x", maxKept)+`"}`), time.Time{})
	require.Equal(t, []string{"r1", "r2"}, p.Open())
	require.True(t, p.Requests[1].Cut)
	require.Empty(t, p.Requests[1].Input, "the history keeps no long inputs")
	require.Contains(t, p.Notice(), `request r1: Bash {"command":"ls"}; request r2: Write (what it asks for is long`)
	known, first = p.Decide("r3", Decision{})
	require.False(t, known || first)
	known, first = p.Decide("r1", Decision{Message: "no", By: "ben"})
	require.True(t, known && first)
	known, first = p.Decide("r1", Decision{Allow: true, By: "anna"})
	require.True(t, known && !first, "the first answer counts")
	require.Equal(t, []string{"r2"}, p.Open())
	require.Equal(t, "ben", p.Decisions[0].By)
	_, ok := Take(p.Decisions, asks("r9", "Bash", `{"command":"ls"}`), nil)
	require.True(t, ok)
}

func TestParkedLate(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	p := Parked{Deadline: Deadline{AfterMS: 10_000}}
	p.Add(asks("r1", "Bash", `{}`), at)
	p.Add(asks("r2", "Bash", `{}`), at.Add(5*time.Second))
	late, next := p.Late(at.Add(time.Second))
	require.Empty(t, late)
	require.Equal(t, 9*time.Second, next)
	late, next = p.Late(at.Add(10 * time.Second))
	require.Len(t, late, 1)
	require.Equal(t, event.ByDeadline, late[0].By)
	require.False(t, late[0].Allow)
	require.Equal(t, 5*time.Second, next)
	p.Deadline = Deadline{}
	late, next = p.Late(at.Add(1000 * time.Hour))
	require.Empty(t, late)
	require.Zero(t, next)
}

func TestWords(t *testing.T) {
	t.Parallel()
	request := Request{ToolName: "Bash", Input: json.RawMessage(`{"command":"ls"}`)}
	question := Request{ToolName: "ask", Questions: json.RawMessage(`["which?"]`)}
	ds := []Decision{
		{Request: request, Allow: true, By: "anna"},
		{Request: request, Message: "not today", By: "ben"},
		{Request: request, Allow: true, Given: json.RawMessage(`{"command":"pwd"}`), By: "anna"},
		{Request: question, Allow: true, Given: json.RawMessage(`{"answers":["this"]}`), By: "user"},
	}
	words := Words(ds)
	for _, line := range []string{
		"\n- allowed: Bash {\"command\":\"ls\"}. Run it now, exactly so.\n",
		"\n- denied: Bash {\"command\":\"ls\"}. Do not do it. The answer was: not today\n",
		"\n- allowed with other arguments: Bash {\"command\":\"ls\"}. Do not run that, but run Bash now with exactly these arguments: {\"command\":\"pwd\"}\n",
		"\n- answered: ask [\"which?\"]. The answer is: {\"answers\":[\"this\"]}\n",
	} {
		require.Contains(t, words, line)
	}
	require.Equal(t, `Bash {"command":"ls"} is allowed by anna; Bash {"command":"ls"} is denied by ben; `+
		`Bash {"command":"ls"} is allowed with other arguments by anna; ask ["which?"] is answered by user`, Summary(ds))
}
