package codex

import (
	"encoding/json"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sojourn-run/sojourn/event"
)

// scribe writes events about items and turns. The translator of the live stream
// and the parser of rollouts both write through it, so that both tell the same
// conversation.
type scribe struct {
	*state
	out  []event.Event
	time time.Time
	// plain leaves out what `codex exec --json` doesn't print.
	plain bool
}

func (s *scribe) emit(conversation string, p event.Payload) {
	s.out = append(s.out, event.Event{Payload: p, Context: event.Context{
		ConversationID: conversation,
		Source:         event.SourceRunner,
		Timestamp:      s.time,
	}})
}

func (s *scribe) upsert(conversation string, b event.Block) {
	s.emit(conversation, event.BlockUpsert{Block: b})
}

// native keeps what this version does not know.
func (s *scribe) native(conversation string, dir event.Dir, kind string, raw []byte) {
	s.emit(conversation, event.Native{Agent: Name, Dir: dir, Kind: kind, Raw: json.RawMessage(raw)})
}

// begin writes an item that is not done yet.
func (s *scribe) begin(th *thread, id string, it *item) {
	s.tellRefused(th)
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
	s.upsert(th.Conversation, b)
}

// call writes a tool call.
func (s *scribe) call(th *thread, id string, it *item) {
	o := open{ID: id, Kind: it.kind(), Prompt: it.Prompt}
	b := event.Block{
		ID: id, Type: event.BlockToolUse, Status: event.StatusComplete,
		ToolName: it.toolName(), ToolUseID: id, Input: it.toolInput(s.plain), Execution: event.ExecutionRunning,
	}
	switch o.Kind {
	case kindChange:
		o.Input = b.Input
	case kindMCP:
		o.Tool = b.ToolName
	}
	th.Open = append(th.Open, o)
	s.upsert(th.Conversation, b)
}

// end writes a whole item. id is the item's, or one made of its position where
// the stream has no ids of its own.
func (s *scribe) end(th *thread, id string, it *item, dir event.Dir) {
	s.tellRefused(th)
	switch kind := it.kind(); {
	case kind == kindUser:
		s.userMessage(th.Conversation, it.promptID(), inputsOf(it.Content))
	case kind == kindText, kind == kindPlan, kind == kindReasoning:
		s.text(th, id, kind, it.said())
	case kind == kindCompacted:
		s.system(th.Conversation, id, "compact_boundary", "Conversation compacted")
	case kind == kindReviewIn, kind == kindReviewOut:
		s.system(th.Conversation, id, string(kind), it.Review)
	case kind == kindActivity:
		s.activity(th, id, it)
	case kind.isTool():
		s.result(th, id, it)
	default:
		s.native(th.Conversation, dir, "item/"+it.Type, it.raw)
	}
}

func (s *scribe) userMessage(conversation, id string, inputs []input) {
	text := joinInputs(inputs)
	s.upsert(conversation, event.Block{
		ID: id, Type: event.BlockUserMessage, Status: event.StatusComplete, Content: &text, Parts: richParts(inputs),
	})
}

// text writes a whole text or thinking block. An empty one that nobody has seen
// says nothing.
func (s *scribe) text(th *thread, id string, kind itemKind, text string) {
	_, seen := th.drop(id)
	if text == "" && !seen {
		return
	}
	b := event.Block{ID: id, Type: kind.blockType(), Status: event.StatusComplete, Content: &text}
	if b.Type == event.BlockAssistantText {
		th.Last = text
	}
	s.upsert(th.Conversation, b)
}

func (s *scribe) system(conversation, id, subtype, text string) {
	s.upsert(conversation, event.Block{
		ID: id, Type: event.BlockSystem, Status: event.StatusComplete, Subtype: subtype, Message: &text,
	})
}

// result writes what came of a tool call. A call whose turn is over has been
// settled: what comes of it later is not the conversation's.
func (s *scribe) result(th *thread, id string, it *item) {
	o, waits := th.drop(id)
	if !waits {
		return
	}
	failed := it.failed()
	if it.kind() == kindChange || it.kind() == kindCommand || otherTools[it.kind()] != "" {
		// The whole item may know more than the one that began.
		s.upsert(th.Conversation, event.Block{
			ID: id, Type: event.BlockToolUse, Input: it.toolInput(s.plain)})
	}
	if it.declined() {
		th.Refused = append(th.Refused, id)
	} else {
		s.upsert(th.Conversation, event.Block{
			ID: id + ":result", Type: event.BlockToolResult, Status: event.StatusComplete,
			ToolUseID: id, Output: it.toolOutput(), IsError: &failed, DurationMS: it.tookMS(),
		})
	}
	s.settle(th, o, failed)
	if it.kind() == kindCollab {
		s.collab(th, id, it)
	}
}

// saysByTheUser is what the model hears of a call that was refused.
const saysByTheUser = "rejected by user"

// tellRefused gives the calls that were refused their results, now that the
// turn goes on. The model hears of a refusal; where the turn ends with it
// instead, nothing has come of the call.
func (s *scribe) tellRefused(th *thread) {
	failed := true
	for _, id := range th.Refused {
		s.upsert(th.Conversation, event.Block{
			ID: id + ":result", Type: event.BlockToolResult, Status: event.StatusComplete,
			ToolUseID: id, Output: rawText(saysByTheUser), IsError: &failed,
		})
	}
	th.Refused = nil
}

// settle says how a call ended.
func (s *scribe) settle(th *thread, o open, failed bool) {
	how := event.ExecutionSuccess
	if failed {
		how = event.ExecutionError
	}
	s.upsert(th.Conversation, event.Block{ID: o.ID, Type: event.BlockToolUse, Execution: how})
}

// lose marks a block that no rollout has.
func (s *scribe) lose(conversation, id string, bt event.BlockType) {
	s.upsert(conversation, event.Block{
		ID: id, Type: bt, Status: event.StatusError,
		Metadata: map[string]json.RawMessage{"lost": json.RawMessage("true")},
	})
}

// close ends what a turn leaves open. A command that goes on in the background
// of a completed turn has been started well; everything else was broken off.
func (s *scribe) close(th *thread, completed bool) {
	for _, o := range th.Open {
		if o.Kind.isTool() {
			s.settle(th, o, !completed || o.Kind != kindCommand)
			continue
		}
		s.lose(th.Conversation, o.ID, o.Kind.blockType())
	}
	th.Open = nil
}

// failure writes why a turn failed.
func (s *scribe) failure(th *thread, turnID string, e *turnError) {
	message := e.Message
	s.upsert(th.Conversation, event.Block{
		ID: turnID + ":error", Type: event.BlockError, Status: event.StatusComplete,
		Message: &message, Code: errorCode,
	})
}

// errorCode is the code of every turn that the model's API made fail: what kind
// of failure it was is not told by all streams.
const errorCode = "api_error"

// code names the kind of a failure, as far as the program tells it.
func (e *turnError) code() string {
	info := e.Info
	if !given(info) {
		info = e.Disk
	}
	if word, ok := plainText(info); ok {
		return snake(word)
	}
	var fields map[string]jsontext.Value
	if !given(info) || decode(info, &fields) != nil {
		return errorCode
	}
	for name := range fields {
		return snake(name)
	}
	return errorCode
}
