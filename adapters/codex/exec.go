package codex

import (
	"encoding/json"
	"fmt"

	"github.com/sojourn-run/sojourn/event"
)

// UngivenPrefix is the prefix of the block id of a prompt without an id.
const UngivenPrefix = "prompt:"

// prompted handles the prompt of a command line.
func (t *translator) prompted(m *message) {
	text, _ := plainText(m.Text)
	t.Prompts++
	t.Turn.Busy, t.Turn.End = true, nil
	t.Upsert(event.Main, *userBlock(fmt.Sprint(UngivenPrefix, t.Prompts), []input{{Type: "text", Text: text}}))
}

// execLine translates a line of `codex exec --json`, which has the main
// thread only, has no pieces of text and numbers its items anew in each
// process.
func (t *translator) execLine(m *message, raw []byte) error {
	t.plain = true
	defer func() { t.plain = false }()
	switch m.Type {
	case "thread.started":
		t.Process++
		t.mainIs(m.ThreadID)
	case "turn.started":
		t.runs(t.Main, fmt.Sprint("exec-", t.Process))
	case "item.started", "item.updated", "item.completed":
		return t.execItem(m, raw)
	case "turn.completed", "turn.failed":
		return t.execEnd(m)
	case "error":
		text, _ := plainText(m.Message)
		t.Emit(event.Main, event.Log{Level: "warn", Message: text, Data: json.RawMessage(raw)})
	default:
		t.Native(event.Main, event.DirOut, m.Type, raw)
	}
	return nil
}

func (t *translator) execItem(m *message, raw []byte) error {
	it := new(item)
	if err := decodeObject(m.Item, it); err != nil {
		return err
	}
	if t.Main == "" {
		t.mainIs("exec")
	}
	th, kind := t.thread(t.Main), it.kind()
	id := fmt.Sprintf("exec-%d:%s", t.Process, it.ID)
	switch {
	case kind == kindError:
		t.Emit(event.Main, event.Log{Level: "warn", Message: it.Message, Data: json.RawMessage(raw)})
	case m.Type == "item.started":
		t.begin(th, id, it)
	case m.Type == "item.completed":
		if kind.isTool() && th.find(id) < 0 {
			t.begin(th, id, it)
		}
		t.end(th, id, it, event.DirOut)
	case kind == "todo_list":
	default:
		t.Native(event.Main, event.DirOut, m.Type, raw)
	}
	return nil
}

// execEnd ends the turn. The tokens are those of the whole thread.
func (t *translator) execEnd(m *message) error {
	turn := &wireTurn{ID: fmt.Sprint("exec-", t.Process), Status: turnDone}
	if m.Type == "turn.failed" {
		turn.Status, turn.Error = turnFailed, &turnError{}
		if given(m.Error) {
			if err := decodeObject(m.Error, turn.Error); err != nil {
				return err
			}
		}
	}
	if given(m.Usage) {
		var u usage
		if err := decodeObject(m.Usage, &u); err != nil {
			return err
		}
		t.spent(u)
	}
	t.turnCompleted(&params{ThreadID: t.Main, Turn: turn}, nil)
	return nil
}

// spent reports what came on top since the last report.
func (t *translator) spent(u usage) {
	since := usage{u.Input - t.Tokens.Input, u.Cached - t.Tokens.Cached, u.CacheWrite - t.Tokens.CacheWrite, u.Output - t.Tokens.Output}
	if since.Input < 0 || since.Output < 0 {
		since = u
	}
	t.Tokens = u
	t.Emit(event.Main, event.MetadataUpdate{Usage: &event.Usage{
		InputTokens: max(since.Input-since.Cached, 0), OutputTokens: since.Output,
		CacheReadTokens: max(since.Cached, 0), CacheWriteTokens: max(since.CacheWrite, 0),
	}})
}
