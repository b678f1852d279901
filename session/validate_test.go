package session

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/permission"
)

// refuses requires an InvalidError that names the field and what is allowed.
func refuses(t *testing.T, field string, err error) {
	t.Helper()
	var invalid *InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, field, invalid.Field)
	require.NotEmpty(t, invalid.Reason)
	require.NotEmpty(t, invalid.Want)
	require.NotContains(t, err.Error(), "\n")
	require.Less(t, len(err.Error()), 400)
}

func TestValidateID(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "A-b_9", strings.Repeat("x", 64), "5b0c7a4e-6a7c-4b4e-8f3e-2b6c1a7d9e10", "-", "_"} {
		require.NoError(t, ValidateID("id", good), good)
	}
	for _, bad := range []string{"", "a b", "a/b", "../a", "a.b", "ä", "a\n", "\x00", strings.Repeat("x", 65), strings.Repeat("y", 10_000)} {
		refuses(t, "id", ValidateID("id", bad))
	}
}

func TestParentValidate(t *testing.T) {
	t.Parallel()
	of := func(p Parent) error {
		return Input{SessionID: "child", Options: Options{Agent: "claude"}, Parent: &p}.Validate("child")
	}
	for _, good := range []Parent{{SessionID: "p", Root: "p", Depth: 1}, {SessionID: "p", Root: "r", Depth: 2}, {SessionID: "p", Root: "r", Depth: MaxDepth}} {
		require.NoError(t, of(good), good)
	}
	for field, bad := range map[string][]Parent{
		"parent.sessionId": {{}, {Root: "r", Depth: 1}, {SessionID: "child", Root: "r", Depth: 2}},
		"parent.root":      {{SessionID: "p", Depth: 1}, {SessionID: "p", Root: "child", Depth: 2}},
		"parent.depth": {
			{SessionID: "p", Root: "p"}, {SessionID: "p", Root: "p", Depth: -9}, {SessionID: "p", Root: "r", Depth: MaxDepth + 1},
			{SessionID: "p", Root: "r", Depth: 1}, {SessionID: "p", Root: "p", Depth: 2},
		},
	} {
		for _, p := range bad {
			refuses(t, field, of(p))
		}
	}
}

func TestResultFits(t *testing.T) {
	t.Parallel()
	said := func(text string) Result {
		return Result{Outcome: Completed, Result: &event.QueryResult{Response: text}}
	}
	require.Equal(t, said("short"), said("short").Fitting(100))
	require.Equal(t, Result{Outcome: Interrupted}, Result{Outcome: Interrupted}.Fitting(1))
	for name, text := range map[string]string{"plain": strings.Repeat("x", 5000), "escaped": strings.Repeat("<", 5000), "runes": strings.Repeat("é", 5000)} {
		whole := said(text)
		short := whole.Fitting(1000).Result
		require.True(t, short.Truncated, name)
		require.LessOrEqual(t, JSONSize(short.Response), 1000, name)
		require.Greater(t, JSONSize(short.Response), 300, name)
		require.True(t, strings.HasPrefix(text, strings.TrimSuffix(short.Response, "…")), name)
		require.Equal(t, text, whole.Result.Response, "%s: the other is as it was", name)
	}
}

func TestMessageValidate(t *testing.T) {
	t.Parallel()
	image := []event.Part{{Type: "image", MediaType: "image/png", Data: "aGk="}}
	for name, good := range map[string]Message{
		"text": {Text: "hello"}, "id": {ID: "m-1", Text: "hello"}, "parts only": {Parts: image},
		"queue": {Text: "a", WhenBusy: BusyQueue}, "interrupt": {Text: "a", WhenBusy: BusyInterrupt}, "reject": {Text: "a", WhenBusy: BusyReject}, "steer": {Text: "a", WhenBusy: BusySteer},
		"at the limit": {Text: strings.Repeat("x", MaxMessageBytes-len(`{"text":""}`))},
	} {
		require.NoError(t, good.Validate(), name)
	}
	for field, bad := range map[string][]Message{
		"message.id":       {{ID: "not an id", Text: "a"}},
		"message.text":     {{}, {Text: " \n\t "}},
		"message.whenBusy": {{Text: "a", WhenBusy: "later"}},
		"message":          {{Text: strings.Repeat("x", MaxMessageBytes)}, {Parts: []event.Part{{Type: "image", Data: strings.Repeat("x", MaxMessageBytes)}}}},
	} {
		for _, m := range bad {
			refuses(t, field, m.Validate())
		}
	}
}

func TestOptionsValidate(t *testing.T) {
	t.Parallel()
	bag := func(key, value string) map[string]json.RawMessage {
		return map[string]json.RawMessage{key: json.RawMessage(value)}
	}
	require.NoError(t, Options{Agent: "claude"}.Validate())
	require.NoError(t, Options{
		Agent: "claude", Profile: "p", Title: "t", Permission: adapters.PermissionAsk, IdleTimeoutMS: 1,
		Metadata: bag("any", `{"json": [1, null]}`), Tags: []string{"a", strings.Repeat("t", 64)},
	}.Validate())
	for field, bad := range map[string][]Options{
		"agent":                      {{}},
		"permission":                 {{Agent: "a", Permission: "maybe"}},
		"idleTimeoutMs":              {{Agent: "a", IdleTimeoutMS: -1}},
		"permissions":                {{Agent: "a", Permissions: permission.Rules{{Tool: strings.Repeat("x", maxRules), Answer: "allow"}}}},
		"permissions[1].tool":        {{Agent: "a", Permissions: permission.Rules{{Tool: "*", Answer: "allow"}, {Answer: "ask"}}}},
		"permissions[0].answer":      {{Agent: "a", Permissions: permission.Rules{{Tool: "*", Answer: "maybe"}}}},
		"permissionDeadline.afterMs": {{Agent: "a", PermissionDeadline: permission.Deadline{AfterMS: -1}}},
		"unknownEffects":             {{Agent: "a", UnknownEffects: permission.EffectRules{{Tool: strings.Repeat("x", maxRules), Then: "ask"}}}},
		"unknownEffects[0].tool":     {{Agent: "a", UnknownEffects: permission.EffectRules{{Then: "ask"}}}},
		"unknownEffects[0].then":     {{Agent: "a", UnknownEffects: permission.EffectRules{{Tool: "*", Then: "allow"}}}},
		"permissionDeadline.answer":  {{Agent: "a", PermissionDeadline: permission.Deadline{AfterMS: 1, Answer: "ask"}}},
		"metadata":                   {{Agent: "a", Metadata: bag("", "1")}, {Agent: "a", Metadata: bag("k", `"`+strings.Repeat("x", maxBag)+`"`)}},
		"tags":                       {{Agent: "a", Tags: []string{""}}, {Agent: "a", Tags: []string{strings.Repeat("t", 65)}}},
	} {
		for _, o := range bad {
			refuses(t, field, o.Validate())
		}
	}
}

// Milliseconds that overflow a time.Duration would end at once what they are to bound.
func TestMillisecondsAreBounded(t *testing.T) {
	t.Parallel()
	for field, set := range map[string]func(ms int64) (Options, Configure){
		"idleTimeoutMs": func(ms int64) (Options, Configure) {
			return Options{IdleTimeoutMS: ms}, Configure{IdleTimeoutMS: &ms}
		},
		"noProgressMs": func(ms int64) (Options, Configure) {
			return Options{NoProgressMS: ms}, Configure{}
		},
		"limits.workMs": func(ms int64) (Options, Configure) {
			return Options{Limits: limits.Limits{WorkMS: ms}}, Configure{Limits: &limits.Change{WorkMS: &ms}}
		},
		"permissionDeadline.afterMs": func(ms int64) (Options, Configure) {
			d := permission.Deadline{AfterMS: ms, Answer: permission.Allow}
			return Options{PermissionDeadline: d}, Configure{PermissionDeadline: &d}
		},
		"parkMs": func(ms int64) (Options, Configure) {
			return Options{Park: permission.Park(ms)}, Configure{Park: new(permission.Park(ms))}
		},
	} {
		const most = 100 * 365 * 24 * 3600 * 1000
		for _, ms := range []int64{most + 1, math.MaxInt64 / int64(time.Millisecond), math.MaxInt64} {
			o, c := set(ms)
			o.Agent = "claude"
			refuses(t, field, o.Validate())
			if !c.Empty() {
				refuses(t, field, c.Validate())
			}
		}
		o, c := set(most)
		o.Agent = "claude"
		require.NoError(t, o.Validate(), field)
		require.NoError(t, c.Validate(), field)
	}
}

func TestConfigureValidate(t *testing.T) {
	t.Parallel()
	require.True(t, Configure{}.Empty())
	require.NoError(t, Configure{}.Validate())
	title, allow, later := "t", adapters.PermissionAllow, int64(1)
	for _, good := range []Configure{{Title: &title}, {Model: &title}, {Permission: &allow}, {IdleTimeoutMS: &later}, {Tags: []string{}}} {
		require.False(t, good.Empty())
		require.NoError(t, good.Validate())
	}
	maybe, before := adapters.Permission("maybe"), int64(-1)
	refuses(t, "permission", Configure{Permission: &maybe}.Validate())
	refuses(t, "idleTimeoutMs", Configure{IdleTimeoutMS: &before}.Validate())
	refuses(t, "metadata", Configure{Metadata: map[string]json.RawMessage{"": json.RawMessage("1")}}.Validate())
	refuses(t, "tags", Configure{Tags: []string{""}}.Validate())
	none, wrong, late := permission.Rules{}, permission.Rules{{Tool: "*"}}, permission.Deadline{AfterMS: -1}
	require.False(t, Configure{Permissions: &none}.Empty())
	require.NoError(t, Configure{Permissions: &none}.Validate())
	refuses(t, "permissions[0].answer", Configure{Permissions: &wrong}.Validate())
	refuses(t, "permissionDeadline.afterMs", Configure{PermissionDeadline: &late}.Validate())
	nothing, vague := permission.EffectRules{}, permission.EffectRules{{Tool: "*"}}
	require.False(t, Configure{UnknownEffects: &nothing}.Empty())
	require.NoError(t, Configure{UnknownEffects: &nothing}.Validate())
	refuses(t, "unknownEffects[0].then", Configure{UnknownEffects: &vague}.Validate())
}

func TestRespondValidate(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"", "anna", event.ByUser, "Jürgen von nebenan"} {
		require.NoError(t, RespondRequest{RequestID: "r", By: by}.Validate())
	}
	refuses(t, "requestId", RespondRequest{}.Validate())
	for _, by := range []string{event.ByPolicy, event.ByDeadline, "a\nb", "\xff", strings.Repeat("n", maxKeyword+1)} {
		refuses(t, "by", RespondRequest{RequestID: "r", By: by}.Validate())
	}
}

// The wire form is what clients in other languages send.
func TestMessageOnTheWire(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(Message{ID: "m1", Text: "hello", WhenBusy: BusyReject})
	require.NoError(t, err)
	require.JSONEq(t, `{"id": "m1", "text": "hello", "whenBusy": "reject"}`, string(data))
	data, err = json.Marshal(InterruptReply{})
	require.NoError(t, err)
	require.JSONEq(t, `{"running": false}`, string(data))
}

func TestResultErr(t *testing.T) {
	t.Parallel()
	require.NoError(t, Result{Outcome: Completed}.Err())
	require.ErrorContains(t, Result{ExecutionID: "x1", Outcome: Interrupted, Reason: "enough"}.Err(), "x1 was interrupted: enough")
	require.ErrorContains(t, Result{Outcome: Interrupted}.Err(), "no reason was given")
	require.ErrorContains(t, Result{ExecutionID: "x1", Outcome: Failed, Error: &event.ErrorInfo{Message: "broken"}}.Err(), "x1 failed: broken")
	require.ErrorContains(t, Result{Outcome: Failed}.Err(), "no reason was recorded")
}

func TestResultOf(t *testing.T) {
	t.Parallel()
	q := event.Query{ExecutionID: "x3", MessageIDs: []string{"a", "b"}, Reason: "why", Error: &event.ErrorInfo{Message: "e"}, Result: &event.QueryResult{Response: "r"}}
	for want, p := range map[Outcome]event.Payload{
		Completed: event.QueryCompleted{Query: q}, Failed: event.QueryFailed{Query: q}, Interrupted: event.QueryInterrupted{Query: q},
	} {
		for _, id := range q.MessageIDs {
			res, ended := ResultOf(event.Event{Payload: p}, id)
			require.True(t, ended)
			require.Equal(t, Result{ExecutionID: "x3", MessageID: id, Outcome: want, Result: q.Result, Error: q.Error, Reason: "why", MessageIDs: q.MessageIDs}, res)
		}
		_, ended := ResultOf(event.Event{Payload: p}, "c")
		require.False(t, ended, "another message's end")
	}
	for _, p := range []event.Payload{nil, event.QueryStarted{Query: q}, event.SessionIdle{}, event.SessionClosed{}} {
		_, ended := ResultOf(event.Event{Payload: p}, "a")
		require.False(t, ended)
	}
}

// Bytes that are not UTF-8 would be replaced on the way, so they are refused.
func TestTextsAreUTF8(t *testing.T) {
	t.Parallel()
	bad := "x\xff"
	key := json.RawMessage(`"v"`)
	for field, err := range map[string]error{
		"message.text":          Message{Text: bad}.Validate(),
		"message.parts[0].text": Message{Parts: []event.Part{{Type: "text", Text: bad}}}.Validate(),
		"title":                 Options{Agent: "a", Title: bad}.Validate(),
		"model":                 Options{Agent: "a", Model: bad}.Validate(),
		"tags":                  Configure{Tags: []string{bad}}.Validate(),
		"metadata":              Configure{Metadata: map[string]json.RawMessage{bad: key}}.Validate(),
		"reason":                InterruptRequest{Reason: bad}.Validate(),
	} {
		var invalid *InvalidError
		require.ErrorAs(t, err, &invalid, field)
		require.Equal(t, field, invalid.Field)
		require.Equal(t, "is not UTF-8", invalid.Reason)
	}
	require.NoError(t, InterruptRequest{Reason: "good"}.Validate())
}

// Escaped text counts with its length as JSON.
func TestMessageSizeCountsEscapes(t *testing.T) {
	for _, s := range []string{"\u2028", "<", "\"", "\x00"} {
		data, err := json.Marshal(s)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(s)+escapes(s)+len(`""`), len(data), "%q", s)
		full := Message{Text: strings.Repeat(s, MaxMessageBytes/(len(data)-len(`""`)))}
		require.ErrorContains(t, full.validateSize(), "bytes as JSON", "%q", s)
	}
}

// TestRequestsAreBounded: no field of a request may be of any length, as many are carried
// from run to run, and a value that is none of its kind is refused by its name.
func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxReason+1)
	answer := func(change func(*RespondRequest)) error {
		req := RespondRequest{RequestID: "r"}
		change(&req)
		return req.Validate()
	}
	part := func(p event.Part) error {
		return Message{Parts: []event.Part{{Type: "text", Text: "first"}, p}}.Validate()
	}
	for _, c := range []struct {
		field string
		err   error
	}{
		{"reason", InterruptRequest{Reason: long}.Validate()},
		{"reason", QueueEdit{MessageID: "m", Cancel: true, Reason: long}.Validate()},
		{"reason", EvictRequest{Reason: "a whim"}.Validate()},
		{"message", answer(func(r *RespondRequest) { r.Message = strings.Repeat("x", maxAnswer+1) })},
		{"message", answer(func(r *RespondRequest) { r.Message = "\xff" })},
		{"requestId", answer(func(r *RespondRequest) { r.RequestID = long })},
		{"input", answer(func(r *RespondRequest) { r.Input = json.RawMessage(`"` + strings.Repeat("x", MaxMessageBytes) + `"`) })},
		{"model", Options{Agent: "a", Model: long}.Validate()},
		{"model", Configure{Model: &long}.Validate()},
		{"workspace", Options{Agent: "a", Workspace: "/" + long}.Validate()},
		{"description", SpawnRequest{Description: long, Message: Message{Text: "a"}}.Validate()},
		{"toolUseId", SpawnRequest{ToolUseID: long, Message: Message{Text: "a"}}.Validate()},
		{"message.text", SpawnRequest{}.Validate()},
		{"message.parts[1].type", part(event.Part{Type: "video", URL: "x"})},
		{"message.parts[1].type", part(event.Part{Type: long})},
		{"message.parts[1]", part(event.Part{Type: "image", MediaType: "image/png"})},
		{"message.whenBusy", Message{Text: "a", WhenBusy: BusyPolicy(long)}.Validate()},
	} {
		refuses(t, c.field, c.err)
	}
	for _, reason := range []string{"", EvictManual, EvictForSlot, EvictUnhealthy, EvictForDrain, EvictForAge, EvictForParent} {
		require.NoError(t, EvictRequest{Reason: reason}.Validate())
	}
}

// TestDecodeRequest: what is no request of its kind is refused with the field and what is
// right. Decoded again for a replay, nothing that was accepted is refused.
func TestDecodeRequest(t *testing.T) {
	t.Parallel()
	of := func(data string) *commonpb.Payload { return &commonpb.Payload{Data: []byte(data)} }
	err := func(_ any, err error) error { return err }
	for _, c := range []struct {
		field, want string
		err         error
	}{
		{"message", messageForm, err(DecodeRequest[Message](UpdateSend, of(`17`)))},
		{"message.text", "a string", err(DecodeRequest[Message](UpdateSend, of(`{"text": 5}`)))},
		{"message.txt", messageForm, err(DecodeRequest[Message](UpdateSend, of(`{"text": "a", "txt": "b"}`)))},
		{"message.parts.0.data", "a string", err(DecodeRequest[Message](UpdateSend, of(`{"parts": [{"data": []}]}`)))},
		{"message.maxTicks", "a whole number", err(DecodeRequest[Message](UpdateSend, of(`{"text": "a", "maxTicks": 1.5}`)))},
		{"interrupt", "a JSON object", err(DecodeRequest[InterruptRequest](UpdateInterrupt, of(`"stop"`)))},
		{"interrupt", "a JSON object", err(DecodeRequest[InterruptRequest](UpdateInterrupt, of(`{"reason": `)))},
		{"reason", "a string", err(DecodeRequest[InterruptRequest](UpdateInterrupt, of(`{"reason": {}}`)))},
		{"message.text", "a string", err(DecodeRequest[InterruptRequest](UpdateInterrupt, of(`{"message": {"text": true}}`)))},
		{"clearQueue", "a bool", err(DecodeRequest[InterruptRequest](UpdateInterrupt, of(`{"clearQueue": "yes"}`)))},
		{"allow", respondForm, err(DecodeRequest[RespondRequest](UpdateRespond, of(`{"requestId": "r"}`)))},
		{"allowed", "a JSON object", err(DecodeRequest[RespondRequest](UpdateRespond, of(`{"requestId": "r", "allowed": true}`)))},
		{"allow", "a bool", err(DecodeRequest[RespondRequest](UpdateRespond, of(`{"requestId": "r", "allow": "yes"}`)))},
		{"tags", "a list", err(DecodeRequest[Configure](UpdateConfigure, of(`{"tags": "a"}`)))},
		{"limits.costUsd", "a number", err(DecodeRequest[Configure](UpdateConfigure, of(`{"limits": {"costUsd": "1"}}`)))},
		{"options.idleTimeoutMs", "a whole number", err(DecodeRequest[SpawnRequest](UpdateSpawn, of(`{"options": {"idleTimeoutMs": "1 h"}}`)))},
	} {
		refuses(t, c.field, c.err)
		require.ErrorContains(t, c.err, "want "+c.want, c.field)
	}
	nothing, e := DecodeRequest[InterruptRequest](UpdateInterrupt, nil)
	require.NoError(t, e)
	require.Zero(t, nothing)
	answer, e := DecodeRequest[RespondRequest](UpdateRespond, of(`{"requestId": "r", "allow": false, "input": {"a": 1}}`))
	require.NoError(t, e)
	require.Equal(t, RespondRequest{RequestID: "r", Input: json.RawMessage(`{"a": 1}`)}, answer)
	again, e := AcceptedRequest[RespondRequest](of(`{"requestId": "r", "since": "a version before"}`))
	require.NoError(t, e)
	require.Equal(t, RespondRequest{RequestID: "r"}, again)
}
