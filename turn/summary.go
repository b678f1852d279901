package turn

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/reducer/loss"
)

// Summary is what a turn remembers of the events that it streamed: enough for its
// result, for operators, and for the places of server blocks. Not safe for
// concurrent use.
type Summary struct {
	Usage event.Usage
	// CostUSD is nil until the agent has reported a cost.
	CostUSD *float64
	// Events and Deltas count what was streamed.
	Events, Deltas int
	// LastBlock is the last block in words, for people.
	LastBlock string
	// Answer is the last block of the main conversation that the agent has completed
	// and will persist; "" for none.
	Answer string
	// Stderr is the end of what the agent logged as warnings and errors.
	Stderr string
	// HasServer reports whether the translation itself made a server block: what the
	// agent streamed and will not persist, such as the failure of its model.
	HasServer bool

	// blocks are the main conversation's: the last permanent one, and all that may
	// yet be.
	blocks loss.Order
	// lost are the blocks that the agent has taken back.
	lost map[loss.Ref]bool
	// threads are the subagents of the turn; true for one of which anything was
	// streamed.
	threads map[string]bool
	// text is the last assistant_text of the main conversation, or as much of it as
	// shows that a result must truncate it.
	textID string
	text   strings.Builder
}

// NewSummary begins behind a block of the main conversation.
func NewSummary(after string) Summary {
	return Summary{blocks: loss.NewOrder(after), lost: map[loss.Ref]bool{}, threads: map[string]bool{}}
}

// MaxResponse bounds the text of a result, in bytes; the stream has all of it.
const MaxResponse = 16 << 10

// maxStderr bounds what is kept of an agent's log, in bytes.
const maxStderr = 2000

// Add takes the next event of the agent.
func (s *Summary) Add(ev event.Event) {
	s.Events++
	s.noteThread(ev)
	main := ev.Context.Conversation() == event.Main
	if main {
		s.blocks.Add(ev.Payload)
	}
	switch p := ev.Payload.(type) {
	case event.BlockUpsert:
		s.LastBlock = Describe(p.Block, s.LastBlock)
		if reducer.Lost(p.Block) {
			s.lost[loss.RefOf(ev)] = true
		}
		if main {
			s.addBlock(p.Block)
		}
	case event.BlockDelta:
		s.Deltas++
		if main && p.BlockID == s.textID {
			s.addText(p.Delta)
		}
	case event.SubagentSpawned, event.SessionIdle:
		s.blocks.Prune()
	case event.MetadataUpdate:
		if p.Usage != nil {
			s.Usage = s.Usage.Add(*p.Usage)
		}
		s.CostUSD = event.AddCost(s.CostUSD, p.CostUSD)
	case event.Log:
		if p.Level == "error" || p.Level == "warn" {
			s.Stderr = lastBytes(s.Stderr+p.Message+"\n", maxStderr)
		}
	}
}

func (s *Summary) noteThread(ev event.Event) {
	switch p := ev.Payload.(type) {
	case event.SubagentSpawned:
		if _, known := s.threads[p.ToolUseID]; !known {
			s.threads[p.ToolUseID] = false
		}
	case event.BlockUpsert:
		if _, known := s.threads[ev.Context.Conversation()]; known {
			s.threads[ev.Context.Conversation()] = true
		}
	}
}

// SilentThreads are the subagents of which nothing was streamed.
func (s *Summary) SilentThreads() map[string]bool {
	silent := map[string]bool{}
	for id, streamed := range s.threads {
		if !streamed {
			silent[id] = true
		}
	}
	return silent
}

// TookBack reports whether the agent has taken back blocks that it streamed, and
// which events are about those.
func (s *Summary) TookBack() (is func(event.Event) bool, any bool) {
	return func(ev event.Event) bool { return s.lost[loss.RefOf(ev)] }, len(s.lost) > 0
}

// Last is the last permanent block of the main conversation.
func (s *Summary) Last() string { return s.blocks.Last() }

// SetLast begins anew behind a block.
func (s *Summary) SetLast(block string) { s.blocks = loss.NewOrder(block) }

func (s *Summary) addBlock(b event.Block) {
	s.blocks.Prune()
	s.HasServer = s.HasServer || b.Source == event.SourceServer
	s.noteAnswer(b)
	if b.Type != event.BlockAssistantText {
		return
	}
	if b.ID == s.textID && reducer.Lost(b) {
		s.beginText("")
		return
	}
	if b.ID != s.textID {
		s.beginText(b.ID)
	}
	if hasText(b.Content) {
		s.beginText(b.ID)
		s.addText(*b.Content)
	}
}

// beginText begins the text of another block, or of the same block again.
func (s *Summary) beginText(id string) {
	s.textID = id
	s.text.Reset()
}

func (s *Summary) addText(text string) {
	if room := MaxResponse + utf8.UTFMax - s.text.Len(); room > 0 {
		s.text.WriteString(text[:min(len(text), room)])
	}
}

func (s *Summary) noteAnswer(b event.Block) {
	switch {
	case b.ID == s.Answer && reducer.Lost(b):
		s.Answer = ""
	case b.Status != event.StatusComplete || b.Source == event.SourceServer:
	case b.Type == event.BlockAssistantText && (hasText(b.Content) || b.ID == s.textID && s.text.Len() > 0), b.Type == event.BlockToolResult:
		s.Answer = b.ID
	}
}

// Result is what the turn came to, with the beginning of its answer.
func (s *Summary) Result() event.QueryResult {
	r := event.QueryResult{Response: s.text.String(), Usage: s.Usage, CostUSD: s.CostUSD}
	if r.Response != "" {
		r.ResponseBlockID = s.textID
	}
	return Shorten(r, MaxResponse)
}

// Shorten returns r with at most n bytes of its response, and an ellipsis.
func Shorten(r event.QueryResult, n int) event.QueryResult {
	if len(r.Response) > n {
		r.Response, r.Truncated = Truncate(r.Response, n), true
	}
	return r
}

// maxLine bounds the description of a block, in bytes.
const maxLine = 160

// Describe returns a line about a block for people; was, where the block adds
// nothing to it.
func Describe(b event.Block, was string) string {
	switch {
	case b.Type == event.BlockToolUse && b.ToolName != "":
		return Truncate(fmt.Sprintf("%s %s", b.ToolName, compact(b.Input)), maxLine)
	case b.Type == event.BlockToolResult:
		return Truncate("result: "+compact(b.Output), maxLine)
	case b.Type == event.BlockSubagent && b.Name != "":
		return Truncate("subagent "+b.Name+": "+b.Description, maxLine)
	case hasText(b.Content):
		return Truncate(strings.ReplaceAll(string(b.Type), "_", " ")+": "+*b.Content, maxLine)
	case hasText(b.Message):
		return Truncate(string(b.Type)+": "+*b.Message, maxLine)
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

// lastBytes returns the end of a text, at a rune.
func lastBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[len(s)-n:], "")
}

// Truncate shortens text to at most n bytes and an ellipsis, at a rune. Bytes that
// are no text are kept.
func Truncate(s string, n int) string {
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

func hasText(s *string) bool { return s != nil && *s != "" }
