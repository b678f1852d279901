package codex

import (
	"encoding/json"
	"strconv"

	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/event"
)

// emitter emits events about items and turns. The translator of the live stream
// and the parser of rollouts both use it, so that both make the same
// conversation.
type emitter struct {
	emit.Emitter
	*state
	// plain leaves out what `codex exec --json` doesn't print.
	plain bool
}

func newEmitter(st *state) emitter { return emitter{Emitter: emit.Emitter{Agent: Name}, state: st} }

// begin emits an item that is not done yet.
func (s *emitter) begin(th *thread, id string, it *item) {
	s.emitRefused(th)
	kind := it.kind()
	b := event.Block{ID: id, Type: kind.blockType(), Status: event.StatusPending}
	switch {
	case b.Type == "" || kind == kindUser:
		return
	case b.Type == event.BlockToolUse:
		s.call(th, id, it)
		return
	}
	th.Open = append(th.Open, open{ID: id, Kind: kind})
	s.Upsert(th.Conversation, b)
	s.placed(th, id, id, it.StartedMS)
}

// placed has the host keep the place of a new block that a rollout may have elsewhere: there
// the place follows from the items' times, which are milliseconds, and what is sent later
// may be earlier by them. at is that of the item, where the block begins. An item of a
// rollout has no times of its own, so that reading one places nothing.
func (s *emitter) placed(th *thread, item, block string, at int64) {
	switch {
	case at > th.Latest, at == th.Latest && item == th.LatestItem:
		th.Latest, th.LatestItem = at, item
	case at > 0:
		s.Place(th.Conversation, block)
		th.LatestItem = ""
	}
}

// call emits a tool call.
func (s *emitter) call(th *thread, id string, it *item) {
	o := open{ID: id, Kind: it.kind(), Prompt: it.Prompt}
	o.Report = o.Kind == kindCollab && it.Activity != ""
	b := event.Block{
		ID: id, Type: event.BlockToolUse, Status: event.StatusComplete,
		ToolName: it.toolName(), ToolUseID: id, Input: it.toolInput(s.plain), Execution: event.ExecutionRunning,
	}
	if o.Kind == kindChange || nested(id) {
		o.Input = b.Input
	}
	if o.Kind == kindMCP || nested(id) {
		o.Tool = b.ToolName
	}
	th.Open = append(th.Open, o)
	th.first(id, b.Type)
	s.Upsert(th.Conversation, b)
	s.placed(th, id, id, it.StartedMS)
	if it.agentPath() != "" {
		// The subagent is known now, and may emit items before the call is done.
		s.collab(th, id, it, it.StartedMS)
	}
}

// end emits a whole item. id is the item's, or one made of its position if the
// stream has no ids.
func (s *emitter) end(th *thread, id string, it *item, dir event.Dir) {
	s.emitRefused(th)
	switch kind := it.kind(); {
	case kind == kindUser:
		s.Upsert(th.Conversation, *userBlock(it.promptID(), inputsOf(it.Content)))
		s.placed(th, id, it.promptID(), it.StartedMS)
	case kind == kindText, kind == kindPlan, kind == kindReasoning:
		s.text(th, id, it)
	case kind == kindCompacted:
		s.System(th.Conversation, id, "compact_boundary", "Conversation compacted")
		s.placed(th, id, id, it.StartedMS)
	case kind == kindReviewIn, kind == kindReviewOut:
		s.System(th.Conversation, id, string(kind), it.Review)
		s.placed(th, id, id, it.StartedMS)
	case kind == kindActivity:
		// The subagent's own turn has more about its end.
		if child := s.Threads[first(it.AgentThread, it.AgentThreadDisk)]; child != nil {
			child.Reported = true
		}
	case kind.isTool():
		s.result(th, id, it)
	default:
		s.Native(th.Conversation, dir, "item/"+it.Type, it.raw)
	}
}

func userBlock(id string, inputs []input) *event.Block {
	text := joinInputs(inputs)
	return &event.Block{ID: id, Type: event.BlockUserMessage, Status: event.StatusComplete, Content: &text, Parts: richParts(inputs)}
}

// text emits a whole text or thinking block, unless it is empty and was never
// shown.
func (s *emitter) text(th *thread, id string, it *item) {
	text, typ := it.said(), it.kind().blockType()
	_, seen := th.drop(id)
	if text == "" && !seen {
		return
	}
	if typ == event.BlockAssistantText {
		th.Last = text
		th.first(id, typ)
	}
	s.Upsert(th.Conversation, event.Block{ID: id, Type: typ, Status: event.StatusComplete, Content: &text})
	if !seen {
		s.placed(th, id, id, it.StartedMS)
	}
}

// first notes the first block of a model call.
func (th *thread) first(id string, is event.BlockType) {
	if th.First == "" {
		th.First, th.FirstType = id, is
	}
}

// noCall forgets the model call of an earlier turn: what is reported next is another's.
func (th *thread) noCall() { th.Calling, th.First = false, "" }

// used ends a model call and writes what it took to its first block. A report that
// repeats the one before is of no call.
func (s *emitter) used(th *thread, total int64, u event.Usage) {
	if total == th.Tokens {
		return
	}
	if th.Tokens = total; th.First != "" && th.Conversation != "" {
		s.Upsert(th.Conversation, event.Block{ID: th.First, Type: th.FirstType, Usage: &u})
	}
	th.First = ""
}

// result writes what came of a tool call. A call whose turn is over has been
// settled: what comes of it later is not the conversation's.
func (s *emitter) result(th *thread, id string, it *item) {
	o, waits := th.drop(id)
	if !waits {
		return
	}
	failed := it.failed()
	if it.kind() == kindCollab {
		// The subagent may have started to emit items before the call was done.
		s.collab(th, id, it, it.CompletedMS)
	}
	if it.kind() == kindChange || it.kind() == kindCommand || otherTools[it.kind()] != "" {
		// The whole item may have more than its start.
		s.Upsert(th.Conversation, event.Block{
			ID: id, Type: event.BlockToolUse, Input: it.toolInput(s.plain)})
	}
	if it.declined() {
		th.Refused = append(th.Refused, id)
	} else {
		s.resultBlock(th, id, it.toolOutput(), failed, it.tookMS())
		s.placed(th, id, id+":result", it.CompletedMS)
	}
	s.endCall(th, o, failed)
	if it.declined() {
		s.unwritten(th, o, failed)
	}
}

// resultBlock writes the result of a call.
func (s *emitter) resultBlock(th *thread, id string, output json.RawMessage, failed bool, tookMS *int64) {
	s.Upsert(th.Conversation, event.Block{
		ID: id + ":result", Type: event.BlockToolResult, Status: event.StatusComplete,
		ToolUseID: id, Output: output, IsError: &failed, DurationMS: tookMS,
	})
}

// rejectedByUser is what the model gets as the result of a refused call.
const rejectedByUser = "rejected by user"

// emitRefused emits the results of the refused calls, now that the turn
// continues. The model is informed of a refusal; if the turn ends with it
// instead, the call has no result.
func (s *emitter) emitRefused(th *thread) {
	failed := true
	for _, id := range th.Refused {
		b := event.Block{
			ID: id + ":result", Type: event.BlockToolResult, Status: event.StatusComplete,
			ToolUseID: id, Output: rawText(rejectedByUser), IsError: &failed,
		}
		if nested(id) {
			s.keep(th, b)
			continue
		}
		s.Upsert(th.Conversation, b)
	}
	th.Refused = nil
}

// endCall emits how a call ended.
func (s *emitter) endCall(th *thread, o open, failed bool) {
	how := event.ExecutionSuccess
	if failed {
		how = event.ExecutionError
	}
	s.Upsert(th.Conversation, event.Block{ID: o.ID, Type: event.BlockToolUse, Execution: how})
}

// unwritten emits, for the host to keep, a script's call that no rollout has
// because it did not end in time.
func (s *emitter) unwritten(th *thread, o open, failed bool) {
	if !nested(o.ID) {
		return
	}
	how := event.ExecutionSuccess
	if failed {
		how = event.ExecutionError
	}
	s.keep(th, event.Block{
		ID: o.ID, Type: event.BlockToolUse, Status: event.StatusComplete,
		ToolName: o.Tool, ToolUseID: o.ID, Input: o.Input, Execution: how,
	})
}

// keep emits a block that the program writes nowhere. That of the main
// conversation is kept by the host; a subagent's is lost.
func (s *emitter) keep(th *thread, b event.Block) {
	if th.Conversation != event.Main {
		b.Metadata = emit.Lost()
		s.Upsert(th.Conversation, b)
		return
	}
	s.UpsertServer(th.Conversation, b)
}

// outcome is how a turn ended.
type outcome struct {
	// status is the program's status.
	status string
	// tookMS is how long the turn took, by the program.
	tookMS int64
}

const (
	turnDone        = "completed"
	turnFailed      = "failed"
	turnInterrupted = "interrupted"
	// turnLost is the end of a turn whose process died.
	turnLost = "lost"
)

// saw records when an item of the turn was finished.
func (th *thread) saw(it *item, startedMS, completedMS int64) {
	if th.Began == 0 && it.kind() == kindUser {
		th.Began = startedMS
	}
	if it.saved() {
		th.Quiet = max(th.Quiet, completedMS)
	}
}

// shownAfterMS is how long a call must have run to be shown when its turn is broken
// off.
const shownAfterMS = 500

// keeps reports whether the calls that a turn leaves open are shown. The program
// reports a command some time after the model has asked for it, so one that is
// broken off at once is in the rollout but not live; one whose process dies is in
// the rollout either way. The rule uses figures that both sides have: how long
// the turn took, and when it last finished something.
func (th *thread) keeps(o outcome) bool {
	switch o.status {
	case turnDone, turnFailed:
		return true
	case turnInterrupted:
		return th.Began > 0 && o.tookMS-(th.Quiet-th.Began) >= shownAfterMS
	}
	return false
}

// close ends what a turn leaves open. A command that continues in the background
// of a completed turn counts as started successfully; everything else was broken
// off.
func (s *emitter) close(th *thread, o outcome) {
	keeps := th.keeps(o)
	for _, left := range th.Open {
		failed := o.status != turnDone || left.Kind != kindCommand
		switch {
		case nested(left.ID):
			s.unwritten(th, left, failed)
		case left.Report && o.status != turnLost:
			// The rollout has it whole. Of one that is interrupted right then the program does
			// not send the end.
			s.resultBlock(th, left.ID, rawText(""), false, nil)
			s.endCall(th, left, false)
		case left.Kind.isTool() && keeps:
			s.endCall(th, left, failed)
		default:
			s.Lose(th.Conversation, left.ID, left.Kind.blockType())
		}
	}
	th.Open = nil
}

// failure emits why a turn failed.
func (s *emitter) failure(th *thread, turnID string, e *turnError) {
	message := e.Message
	s.Upsert(th.Conversation, event.Block{
		ID: turnID + ":error", Type: event.BlockError, Status: event.StatusComplete,
		Message: &message, Code: errorCode,
	})
}

// errorCode is the code of every turn that failed in the model's API: not all
// streams have the kind of failure.
const errorCode = "api_error"

// code returns the kind of a failure, as far as the program reports it.
func (e *turnError) code() string {
	info := e.Info
	if !given(info) {
		info = e.Disk
	}
	if word, ok := plainText(info); ok {
		return withStatus(snake(word), namedStatus[snake(word)])
	}
	var fields map[string]struct {
		Status     int `json:"httpStatusCode"`
		StatusDisk int `json:"http_status_code"`
	}
	if !given(info) || decode(info, &fields) != nil {
		return errorCode
	}
	for name, f := range fields {
		return withStatus(snake(name), max(f.Status, f.StatusDisk))
	}
	return errorCode
}

// namedStatus are HTTP failures of which the program reports only the name.
var namedStatus = map[string]int{"bad_request": 400, "unauthorized": 401, "internal_server_error": 500}

func withStatus(code string, status int) string {
	if status == 0 {
		return code
	}
	return code + "_" + strconv.Itoa(status)
}
