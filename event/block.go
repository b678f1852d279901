package event

import (
	"encoding/json"
	"time"
)

// BlockType is the kind of a block.
type BlockType string

// The block types. BlockSubagent represents a subagent in its parent's
// conversation; the subagent's own blocks are a conversation of their own.
const (
	BlockUserMessage   BlockType = "user_message"
	BlockAssistantText BlockType = "assistant_text"
	BlockThinking      BlockType = "thinking"
	BlockToolUse       BlockType = "tool_use"
	BlockToolResult    BlockType = "tool_result"
	BlockSubagent      BlockType = "subagent"
	BlockSystem        BlockType = "system"
	BlockError         BlockType = "error"
	BlockSkillLoad     BlockType = "skill_load"
)

// BlockStatus reports whether a block's content may still change. It is separate
// from the execution status of a tool or subagent.
type BlockStatus string

// The block statuses.
const (
	StatusPending  BlockStatus = "pending"
	StatusComplete BlockStatus = "complete"
	StatusError    BlockStatus = "error"
)

// Execution is the state of the work behind a tool_use or subagent block.
type Execution string

// The execution states.
const (
	ExecutionPending Execution = "pending"
	ExecutionRunning Execution = "running"
	ExecutionSuccess Execution = "success"
	ExecutionError   Execution = "error"
)

// Block is one block, whole or partial. In an upsert a field that is nil (or "",
// for ID, Type, Status and the names) is "not given" and leaves the existing
// block's field alone; in a conversation state every field that the block's type
// has is filled (content "", input {}, output null, isError false).
//
// ID and Type are always required.
type Block struct {
	ID        string      `json:"id"`
	Type      BlockType   `json:"type"`
	Status    BlockStatus `json:"status,omitempty"`
	Timestamp time.Time   `json:"timestamp,omitzero"`
	// Source is "server" on blocks that Sojourn itself added, else empty.
	Source   Source                     `json:"source,omitempty"`
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`

	// Usage is what the model call took that made this block and those behind it, up to
	// the next block with one; nil where the agent does not tell, or has not written it.
	Usage *Usage `json:"usage,omitempty"`

	// Content is the text of user_message, assistant_text, thinking and
	// skill_load.
	Content *string `json:"content,omitempty"`
	// Parts is the content of a user message that is more than text.
	Parts []Part `json:"parts,omitempty"`
	// Model made the text (assistant_text).
	Model string `json:"model,omitempty"`
	// Summary are the headings that some agents give their thinking, one a line.
	Summary *string `json:"summary,omitempty"`

	// ToolName is for tool_use, Input for tool_use and subagent.
	ToolName  string          `json:"toolName,omitempty"`
	ToolUseID string          `json:"toolUseId,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	// Execution is for tool_use and subagent.
	Execution Execution `json:"executionStatus,omitempty"`

	// Output is for tool_result and subagent: a string, or the agent's own array of
	// parts, or null.
	Output     json.RawMessage `json:"output,omitempty"`
	IsError    *bool           `json:"isError,omitempty"`
	DurationMS *int64          `json:"durationMs,omitempty"`

	// SubagentID, Name and Description are for subagent.
	SubagentID  string `json:"subagentId,omitempty"`
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`

	// Subtype is for system, Message for system and error, Code for error.
	Subtype string  `json:"subtype,omitempty"`
	Message *string `json:"message,omitempty"`
	Code    string  `json:"code,omitempty"`

	// SkillName is for skill_load.
	SkillName string `json:"skillName,omitempty"`
}

// HasText reports whether deltas may be appended to blocks of this type.
func (t BlockType) HasText() bool {
	switch t {
	case BlockUserMessage, BlockAssistantText, BlockThinking, BlockSkillLoad:
		return true
	}
	return false
}

// Part is one piece of a user message: text, or an image by base64 or URL.
type Part struct {
	// Type is text or image.
	Type      string `json:"type"`
	Text      string `json:"text,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
	// Data is base64.
	Data string `json:"data,omitempty"`
	URL  string `json:"url,omitempty"`
}

// SubagentBlockID returns the id of the block that represents a subagent in its
// parent's conversation.
func SubagentBlockID(toolUseID string) string { return "subagent-block-" + toolUseID }

// SystemBlock returns a notice by Sojourn itself.
func SystemBlock(id, subtype, message string) BlockUpsert {
	return BlockUpsert{Block: Block{ID: id, Type: BlockSystem, Status: StatusComplete, Source: SourceServer, Subtype: subtype, Message: &message}}
}

// MessageBlock returns a message that no agent wrote down.
func MessageBlock(id, text string, parts []Part) BlockUpsert {
	return BlockUpsert{Block: Block{ID: id, Type: BlockUserMessage, Status: StatusComplete, Source: SourceServer, Content: &text, Parts: parts}}
}

// ErrorBlock returns a failure that Sojourn itself reports.
func ErrorBlock(id string, e ErrorInfo) BlockUpsert {
	return BlockUpsert{Block: Block{ID: id, Type: BlockError, Status: StatusComplete, Source: SourceServer, Message: &e.Message, Code: e.Code}}
}
