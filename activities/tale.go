package activities

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// tale is what a turn remembers of what it heard: enough for its result, for
// the operator's eye, and for anchoring Sojourn's own blocks.
type tale struct {
	usage event.Usage
	// costUSD is nil until the agent has told of a cost.
	costUSD *float64
	events  int
	deltas  int
	// blocks are the main conversation's in order: the last one that is sure
	// to stay, and all that may yet.
	blocks blockOrder
	// written is the last block of the main conversation that the agent has
	// said whole and is sure to write down; "" for none.
	written string
	// lost are the blocks that the agent has taken back.
	lost map[blockIn]bool
	// own says that the agent's words made a block that is not the agent's:
	// what it said and will not write down, such as the failure of its model.
	own bool
	// threads are the subagents of the turn.
	threads threads
	// text is the last assistant_text of the main conversation, or as much of it
	// as shows that a result must cut it.
	textID string
	text   strings.Builder
	last   string
	behind string
	stderr string
}

func newTale(anchor string) tale {
	return tale{blocks: blockOrder{standing(anchor)}, lost: map[blockIn]bool{}, threads: threads{}}
}

// responseLimit bounds the text of a result; the whole is in the stream.
const responseLimit = 16 << 10

func (t *tale) hear(ev event.Event) {
	t.events++
	t.threads.hear(ev)
	main := ev.Context.Conversation() == event.Main
	if main {
		t.blocks.hear(ev.Payload)
	}
	switch p := ev.Payload.(type) {
	case event.BlockUpsert:
		t.last = words(p.Block, t.last)
		if reducer.Lost(p.Block) {
			t.lost[blockFor(ev)] = true
		}
		if main {
			t.hearBlock(p.Block)
		}
	case event.BlockDelta:
		t.deltas++
		if main && p.BlockID == t.textID {
			t.addText(p.Delta)
		}
	case event.SubagentSpawned, event.SessionIdle:
		t.blocks.prune()
	case event.MetadataUpdate:
		if p.Usage != nil {
			t.usage = t.usage.Add(*p.Usage)
		}
		t.costUSD = event.AddCost(t.costUSD, p.CostUSD)
	case event.Log:
		if p.Level == "error" || p.Level == "warn" {
			t.stderr = lastBytes(t.stderr+p.Message+"\n", 2000)
		}
	}
}

func (t *tale) hearBlock(b event.Block) {
	t.blocks.prune()
	t.own = t.own || b.Source == event.SourceServer
	t.noteWritten(b)
	if b.Type != event.BlockAssistantText {
		return
	}
	if b.ID == t.textID && reducer.Lost(b) {
		t.newText("")
		return
	}
	if b.ID != t.textID {
		t.newText(b.ID)
	}
	if b.Content != nil && *b.Content != "" {
		t.newText(b.ID)
		t.addText(*b.Content)
	}
}

// newText begins the text of another block, or of the same block anew.
func (t *tale) newText(id string) {
	t.textID = id
	t.text.Reset()
}

func (t *tale) addText(s string) {
	if room := responseLimit + utf8.UTFMax - t.text.Len(); room > 0 {
		t.text.WriteString(s[:min(len(s), room)])
	}
}

func (t *tale) noteWritten(b event.Block) {
	switch {
	case b.ID == t.written && reducer.Lost(b):
		t.written = ""
	case b.Status != event.StatusComplete || b.Source == event.SourceServer:
	case b.Type == event.BlockAssistantText && (says(b.Content) || b.ID == t.textID && t.text.Len() > 0), b.Type == event.BlockToolResult:
		t.written = b.ID
	}
}

// result is what the turn came to, with the beginning of its answer.
func (t *tale) result() event.QueryResult {
	r := event.QueryResult{Response: t.text.String(), Usage: t.usage, CostUSD: t.costUSD}
	if r.Response != "" {
		r.ResponseBlockID = t.textID
	}
	return shortened(r, responseLimit)
}

// shortened is r with at most n bytes of its response, and an ellipsis.
func shortened(r event.QueryResult, n int) event.QueryResult {
	if len(r.Response) > n {
		r.Response, r.Truncated = cut(r.Response, n), true
	}
	return r
}

// words puts a block into a line for people; was is kept where it says
// nothing.
func words(b event.Block, was string) string {
	switch {
	case b.Type == event.BlockToolUse && b.ToolName != "":
		return cut(fmt.Sprintf("%s %s", b.ToolName, compact(b.Input)), 160)
	case b.Type == event.BlockToolResult:
		return cut("result: "+compact(b.Output), 160)
	case b.Type == event.BlockSubagent && b.Name != "":
		return cut("subagent "+b.Name+": "+b.Description, 160)
	case b.Content != nil && *b.Content != "":
		return cut(strings.ReplaceAll(string(b.Type), "_", " ")+": "+*b.Content, 160)
	case b.Message != nil && *b.Message != "":
		return cut(string(b.Type)+": "+*b.Message, 160)
	}
	return was
}

func compact(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// lastBytes keeps the end of a text: an agent's last words come last.
func lastBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[len(s)-n:], "")
}

// cut shortens text to at most n bytes and an ellipsis, at a rune. Bytes that
// are no text are kept as they are.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	at := n
	for back := 1; back < utf8.UTFMax && back <= n; back++ {
		if utf8.RuneStart(s[n-back]) {
			if !utf8.FullRuneInString(s[n-back : n]) {
				at = n - back
			}
			break
		}
	}
	return s[:at] + "…"
}
