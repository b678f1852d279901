package claude

import (
	"encoding/json"
	"time"

	"github.com/sojourn-run/sojourn/event"
)

// line is one native line: of the program's output, its input, or its
// transcripts. The three share most of their fields.
type line struct {
	Type      string    `json:"type"`
	Subtype   string    `json:"subtype"`
	UUID      string    `json:"uuid"`
	Parent    string    `json:"parent_tool_use_id"`
	Timestamp time.Time `json:"timestamp"`
	Message   *message  `json:"message"`

	// Marks of a user or assistant line.
	IsReplay         bool            `json:"isReplay"`
	IsSynthetic      bool            `json:"isSynthetic"`
	IsMeta           bool            `json:"isMeta"`
	IsCompactSummary bool            `json:"isCompactSummary"`
	IsAPIError       bool            `json:"isApiErrorMessage"`
	Error            json.RawMessage `json:"error"`
	// The native result of a tool, as transcripts name it and as the stream does.
	ToolUseResult     *nativeResult `json:"toolUseResult"`
	LiveToolUseResult *nativeResult `json:"tool_use_result"`
	// IsSidechain marks a line of a subagent, ParentUUID is the line before it.
	IsSidechain bool   `json:"isSidechain"`
	ParentUUID  string `json:"parentUuid"`
	// PromptSource and Origin show in a transcript who wrote a user line: with a
	// source and no origin, it is a person's prompt. A result has the origin of its
	// turn.
	PromptSource string          `json:"promptSource"`
	Origin       json.RawMessage `json:"origin"`
	// asked: the line is a prompt, whatever its text looks like.
	asked bool

	Event *streamEvent `json:"event"`

	// Control protocol.
	RequestID string          `json:"request_id"`
	Request   json.RawMessage `json:"request"`
	Response  json.RawMessage `json:"response"`

	// system lines.
	State          string          `json:"state"`
	Status         string          `json:"status"`
	PermissionMode string          `json:"permissionMode"`
	Model          string          `json:"model"`
	TaskID         string          `json:"task_id"`
	ToolUseID      string          `json:"tool_use_id"`
	TaskType       string          `json:"task_type"`
	Patch          json.RawMessage `json:"patch"`
	Description    string          `json:"description"`
	Attempt        int             `json:"attempt"`
	MaxRetries     int             `json:"max_retries"`
	RetryDelayMS   float64         `json:"retry_delay_ms"`
	ErrorStatus    *int            `json:"error_status"`
	Content        json.RawMessage `json:"content"`

	CompactMetadata *struct {
		Preserved struct {
			AllUUIDs []string `json:"all_uuids"`
		} `json:"preserved_messages"`
	} `json:"compact_metadata"`

	// result lines.
	IsError        bool     `json:"is_error"`
	APIErrorStatus *int     `json:"api_error_status"`
	Result         string   `json:"result"`
	StopReason     string   `json:"stop_reason"`
	TerminalReason string   `json:"terminal_reason"`
	TotalCostUSD   *float64 `json:"total_cost_usd"`
	Usage          *usage   `json:"usage"`
	Errors         []string `json:"errors"`

	// Text is that of a prompt from the command line, a JSON string.
	Text content `json:"text"`

	// Transcript only.
	Attachment *attachment `json:"attachment"`

	// raw is the line itself. The reader owns it and may reuse it for another line
	// after this one.
	raw json.RawMessage
}

// message is the model API's message inside a line.
type message struct {
	ID      string  `json:"id"`
	Model   string  `json:"model"`
	Content content `json:"content"`
	Usage   *usage  `json:"usage"`
	// StopReason is nil while Usage is not final.
	StopReason *string `json:"stop_reason"`
}

// part is one element of a message's content.
type part struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Source    *imageSource    `json:"source"`

	// raw is a part of the line's bytes, from from up to to.
	raw      json.RawMessage
	from, to int64
}

type imageSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
	URL       string `json:"url"`
}

// streamEvent is the model API's server-sent event.
type streamEvent struct {
	Type    string   `json:"type"`
	Index   int      `json:"index"`
	Message *message `json:"message"`
	Block   *part    `json:"content_block"`
	Delta   *struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Thinking string `json:"thinking"`
	} `json:"delta"`
	Usage *usage `json:"usage"`
}

type usage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
}

func (u usage) event() event.Usage {
	return event.Usage{InputTokens: u.Input, OutputTokens: u.Output, CacheReadTokens: u.CacheRead, CacheWriteTokens: u.CacheWrite}
}

// attachment is what a transcript keeps beside messages; only messages that
// were handed over during a turn matter to a conversation.
type attachment struct {
	Type       string  `json:"type"`
	Prompt     content `json:"prompt"`
	SourceUUID string  `json:"source_uuid"`
	// CommandMode is modePrompt for a person's message.
	CommandMode string `json:"commandMode"`
}

const modePrompt = "prompt"

// control is the body of a control_request.
type control struct {
	Subtype     string          `json:"subtype"`
	ToolName    string          `json:"tool_name"`
	DisplayName string          `json:"display_name"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"input"`
	ToolUseID   string          `json:"tool_use_id"`
	// AgentID is the subagent that asks.
	AgentID string `json:"agent_id"`
	Model   string `json:"model"`
}

// controlAnswer is the body of a control_response.
type controlAnswer struct {
	Subtype   string          `json:"subtype"`
	RequestID string          `json:"request_id"`
	Error     string          `json:"error"`
	Response  json.RawMessage `json:"response"`
}

// decision is the answer to can_use_tool.
type decision struct {
	Behavior  string `json:"behavior"`
	Message   string `json:"message"`
	Interrupt bool   `json:"interrupt"`
}
