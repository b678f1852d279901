// Package summary summarizes what a turn streamed in bounded size, whatever the agent
// writes: enough for its result, for operators, and for the places of server blocks. It is
// pure.
package summary

import (
	"strings"
	"unicode/utf8"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/reducer/brief"
	"github.com/sojourn-run/sojourn/reducer/loss"
	"github.com/sojourn-run/sojourn/reducer/ticks"
)

// Summary is what a turn keeps of the events that it streamed: enough for its result, for
// operators, and for the places of server blocks. Not safe for concurrent use.
type Summary struct {
	ticks.Counter
	Usage event.Usage
	// CostUSD is nil until the agent has reported a cost.
	CostUSD *float64
	// Events and Deltas count what was streamed.
	Events, Deltas int
	// LastBlock describes the last block.
	LastBlock string
	// Answer is the last block of the main conversation that the agent has completed and
	// will persist; "" for none.
	Answer string
	// Stderr is the end of what the agent logged as warnings and errors.
	Stderr string
	// HasServer reports whether the translation itself made a server block or place: what the
	// agent streamed and will not persist, such as the failure of its model.
	HasServer bool

	// blocks are the main conversation's: the last permanent one, and all that may still
	// become permanent.
	blocks loss.Order
	// lost are the blocks that the agent has dropped.
	lost map[loss.Ref]bool
	// threads are the subagents of the turn; true for one of which anything was streamed.
	threads map[string]bool
	// text is the last assistant_text of the main conversation, or enough of it to show
	// that a result must truncate it.
	textID string
	text   strings.Builder
}

// New creates a summary that starts after a block of the main conversation.
func New(after string) Summary {
	return Summary{blocks: loss.NewOrder(after), lost: map[loss.Ref]bool{}, threads: map[string]bool{}}
}

// Resume continues what an execution had used before its agent was lost.
func (s *Summary) Resume(used limits.Execution) {
	s.Usage, s.CostUSD, s.Ticks = used.Usage, used.CostUSD, used.Calls
}

// MaxResponse bounds the text of a result, in bytes; the stream has all of it.
const MaxResponse = 16 << 10

// maxStderr bounds the kept end of an agent's log, in bytes.
const maxStderr = 2000

// Add adds the next event of the agent.
func (s *Summary) Add(ev event.Event) {
	s.Events++
	s.Counter.Add(ev)
	s.noteThread(ev)
	main := ev.Context.Conversation() == event.Main
	if main {
		s.blocks.Add(ev.Payload)
	}
	switch p := ev.Payload.(type) {
	case event.BlockUpsert:
		s.LastBlock = brief.Describe(p.Block, s.LastBlock)
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
	case event.BlockPlaced:
		s.HasServer = true
	case event.SubagentSpawned, event.SessionIdle:
		s.blocks.Prune()
	case event.MetadataUpdate:
		if p.Usage != nil {
			s.Usage = s.Usage.Add(*p.Usage)
		}
		s.CostUSD = event.AddKnown(s.CostUSD, p.CostUSD)
	case event.Log:
		if p.Level == "error" || p.Level == "warn" {
			s.Stderr = brief.End(s.Stderr+p.Message+"\n", maxStderr)
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

// SilentThreads returns the subagents of which nothing was streamed.
func (s *Summary) SilentThreads() map[string]bool {
	silent := map[string]bool{}
	for id, streamed := range s.threads {
		if !streamed {
			silent[id] = true
		}
	}
	return silent
}

// TookBack reports whether the agent has dropped blocks that it streamed, and which events
// are about those.
func (s *Summary) TookBack() (is func(event.Event) bool, any bool) {
	return func(ev event.Event) bool { return s.lost[loss.RefOf(ev)] }, len(s.lost) > 0
}

// Last returns the last permanent block of the main conversation.
func (s *Summary) Last() string { return s.blocks.Last() }

// SetLast starts again after a block.
func (s *Summary) SetLast(block string) { s.blocks = loss.NewOrder(block) }

func (s *Summary) addBlock(b event.Block) {
	s.blocks.Prune()
	s.HasServer = s.HasServer || b.Source == event.SourceServer
	s.noteAnswer(b)
	if b.Type != event.BlockAssistantText || b.Status == "" && b.Content == nil {
		return // an upsert without both changes something else, such as the usage
	}
	if reducer.Lost(b) {
		// Also one before: an agent may say so of a text that was cut when it has answered.
		if b.ID == s.textID {
			s.beginText("")
		}
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

// beginText starts the text of another block, or of the same block again.
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

// Result returns the turn's result, with the start of its answer.
func (s *Summary) Result() event.QueryResult {
	r := event.QueryResult{Response: s.text.String(), Usage: s.Usage, CostUSD: s.CostUSD, Ticks: s.Ticks}
	if r.Response != "" {
		r.ResponseBlockID = s.textID
	}
	return brief.Shorten(r, MaxResponse)
}

func hasText(s *string) bool { return s != nil && *s != "" }
