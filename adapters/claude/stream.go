package claude

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/sojourn-run/sojourn/event"
)

// stream translates a partial message. Only the main conversation has them; a
// subagent's messages arrive whole.
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
	case "message_delta":
		t.messageDelta(th, e)
	case "message_stop", "ping":
	default:
		t.Native(event.Main, event.DirOut, "stream_event/"+e.Type, raw)
	}
}

// messageStart starts a message; an unfinished one before it is lost, since the
// program asks the model again.
func (t *translator) messageStart(th *thread, e *streamEvent) {
	t.turnRuns()
	t.loseOpen()
	if e.Message != nil {
		th.Message, th.Model, th.Usage = e.Message.ID, e.Message.Model, event.Usage{}
		if u := e.Message.Usage; u != nil {
			th.Usage = u.event()
		}
	}
	t.Emit(event.Main, event.MetadataUpdate{Calls: 1})
}

// messageDelta ends a message: its usage is final. What it doesn't repeat is as the
// message's start had it.
func (t *translator) messageDelta(th *thread, e *streamEvent) {
	if e.Usage == nil {
		return
	}
	final := e.Usage.event()
	final.InputTokens = cmp.Or(final.InputTokens, th.Usage.InputTokens)
	final.CacheReadTokens = cmp.Or(final.CacheReadTokens, th.Usage.CacheReadTokens)
	final.CacheWriteTokens = cmp.Or(final.CacheWriteTokens, th.Usage.CacheWriteTokens)
	t.Turn.Billed = t.Turn.Billed.Add(final)
	t.Emit(event.Main, event.MetadataUpdate{Usage: &final})
	t.used(th, th.Message, final)
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
		return // a kind of block that is emitted whole, as a native event
	}
	th.Open = append(th.Open, open{Index: e.Index, ID: b.ID, Type: e.Block.Type})
	t.Upsert(event.Main, b)
}

// blockType returns the type of block for a part of the model's answer; "" for a
// part that makes none.
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

// delta appends text. The pieces of a tool's input are not text: the input
// arrives whole with the call.
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

// blockStop ends a block. The whole block has arrived before, unless it is empty.
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

// whole records that the open blocks of a message have arrived whole.
func (t *translator) whole(messageID string) {
	th := t.thread(event.Main)
	if th.Message != messageID {
		return
	}
	for i := range th.Open {
		th.Open[i].Whole = true
	}
}

// loseOpen marks unfinished blocks that were cut off: they are not on disk, and
// will not be completed.
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
