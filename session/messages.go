package session

import (
	"encoding/json"
	"time"

	"github.com/sojourn-run/sojourn/event"
)

// SessionRecord is a session with its messages as plain data, which is JSON and back: for
// chat clients and for what is stored elsewhere.
type SessionRecord struct {
	ID       string          `json:"id"`
	Title    string          `json:"title"`
	Messages []MessageRecord `json:"messages"`
	// CreatedAt and UpdatedAt are zero if only the stream was read.
	CreatedAt time.Time `json:"createdAt,omitzero"`
	UpdatedAt time.Time `json:"updatedAt,omitzero"`
	// Metadata is the caller's, unchanged.
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
}

// MessageRecord is a block of a conversation as a message in the style of model APIs and
// chat clients.
type MessageRecord struct {
	ID   string `json:"id"`
	Role Role   `json:"role"`
	// Content is the block's text; for a tool call its input, for a result its output: a
	// text, or JSON.
	Content   string    `json:"content"`
	Timestamp time.Time `json:"timestamp,omitzero"`
	// Usage is the usage of the model call that made this message and the assistant's
	// following messages without a Usage; nil if the agent does not report it.
	Usage *MessageUsage `json:"usage,omitempty"`
}

// MessageUsage counts tokens, without those from a cache.
type MessageUsage struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

// Record returns the session with the messages of its main conversation.
func (c Conversation) Record() SessionRecord {
	return SessionRecord{
		ID: c.SessionID, Title: c.Title, Messages: c.Messages(),
		CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt, Metadata: c.Metadata,
	}
}

// Messages returns the main conversation as messages, in order.
func (c Conversation) Messages() []MessageRecord { return MessagesOf(c.State.Blocks) }

// MessagesOf returns blocks as messages, such as those that a Timeline has chosen.
func MessagesOf(blocks []event.Block) []MessageRecord {
	messages := make([]MessageRecord, len(blocks))
	for i, b := range blocks {
		messages[i] = MessageRecord{ID: b.ID, Role: RoleOf(b), Content: contentOf(b), Timestamp: b.Timestamp}
		if u := b.Usage; u != nil {
			messages[i].Usage = &MessageUsage{Input: u.InputTokens, Output: u.OutputTokens}
		}
	}
	return messages
}

func contentOf(b event.Block) string {
	switch {
	case b.Content != nil:
		return *b.Content
	case b.Message != nil:
		return *b.Message
	case b.Output != nil && b.Type != event.BlockToolUse:
		return textOrJSON(b.Output)
	}
	return textOrJSON(b.Input)
}

func textOrJSON(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
