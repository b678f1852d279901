package claude

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/sojourn-run/sojourn/event"
)

// stream translates a partial message. Only the main conversation has them; a
// subagent's messages come whole.
func (t *translator) stream(l *line, raw json.RawMessage) {
	if l.Event == nil {
		t.Native(conversationOf(l), event.DirOut, l.kind(), raw)
		return
	}
	if l.Parent != "" {
		return
	}
	e, th := l.Event, t.thread(event.Main)
	switch e.Type {
	case "content_block_delta":
		t.delta(th, e)
	case "message_start":
		t.messageStart(th, e)
	case "content_block_start":
		t.blockStart(th, e, raw)
	case "content_block_stop":
		t.blockStop(th, e.Index)
	case "message_delta", "message_stop", "ping":
	default:
		t.Native(event.Main, event.DirOut, "stream_event/"+e.Type, raw)
	}
}

// messageStart begins a message; one that was cut off before is lost, since
// the program asks the model again.
func (t *translator) messageStart(th *thread, e *streamEvent) {
	t.turnRuns()
	t.loseOpen()
	if e.Message != nil {
		th.Message, th.Model = e.Message.ID, e.Message.Model
	}
}

func (t *translator) blockStart(th *thread, e *streamEvent, raw json.RawMessage) {
	if e.Block == nil {
		t.Native(event.Main, event.DirOut, "stream_event/"+e.Type, raw)
		return
	}
	b := event.Block{Status: event.StatusPending, Type: blockType(e.Block.Type)}
	switch b.Type {
	case event.BlockAssistantText:
		b.ID, b.Content, b.Model = th.Message+":"+strconv.Itoa(e.Index), &e.Block.Text, th.Model
	case event.BlockThinking:
		b.ID, b.Content = th.Message+":"+strconv.Itoa(e.Index), &e.Block.Thinking
	case event.BlockToolUse:
		b.ID, b.ToolUseID, b.ToolName = e.Block.ID, e.Block.ID, e.Block.Name
		b.Execution = event.ExecutionPending
	}
	if b.ID == "" {
		return // a kind of block that is told whole, as a native event
	}
	th.Open = append(th.Open, open{Index: e.Index, ID: b.ID, Type: e.Block.Type})
	t.Upsert(event.Main, b)
}

// blockType is the type of the block that a part of the model's answer makes;
// "" for a part that makes none.
func blockType(partType string) event.BlockType {
	switch {
	case partType == "text":
		return event.BlockAssistantText
	case partType == "thinking":
		return event.BlockThinking
	case isToolUse(partType):
		return event.BlockToolUse
	}
	return ""
}

// delta appends text. The pieces of a tool's input are no text: the input
// comes whole with the call.
func (t *translator) delta(th *thread, e *streamEvent) {
	if e.Delta == nil {
		return
	}
	at := th.find(e.Index)
	text := e.Delta.Text
	if e.Delta.Type == "thinking_delta" {
		text = e.Delta.Thinking
	}
	if at >= 0 && text != "" {
		t.Emit(event.Main, event.BlockDelta{BlockID: th.Open[at].ID, Delta: text})
	}
}

// blockStop ends a block. The whole block has come before, but for an empty
// one.
func (t *translator) blockStop(th *thread, index int) {
	at := th.find(index)
	if at < 0 {
		return
	}
	o := th.Open[at]
	th.Open = slices.Delete(th.Open, at, at+1)
	if !o.Whole {
		th.next(th.Message) // the transcript has a line for it, the stream has none
		t.Upsert(event.Main, event.Block{ID: o.ID, Type: blockType(o.Type), Status: event.StatusComplete})
	}
}

func (t *thread) find(index int) int {
	return slices.IndexFunc(t.Open, func(o open) bool { return o.Index == index })
}

// whole notes that the open blocks of a message have come whole.
func (t *translator) whole(messageID string) {
	th := t.thread(event.Main)
	if th.Message != messageID {
		return
	}
	for i := range th.Open {
		th.Open[i].Whole = true
	}
}

// loseOpen marks what was being said when it was cut off: it is on no disk,
// and it will not be said again.
func (t *translator) loseOpen() {
	th := t.Threads[event.Main]
	if th == nil {
		return
	}
	for _, o := range th.Open {
		if !o.Whole {
			t.Lose(event.Main, o.ID, blockType(o.Type))
		}
	}
	th.Open = nil
}
