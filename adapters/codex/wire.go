package codex

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/sojourn-run/sojourn/event"
)

// message is one line of the exchange: a request, a response or a notification
// of the app-server protocol, or a line of `codex exec --json`, which has a
// type instead.
type message struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
	Result jsontext.Value `json:"result"`
	Error  jsontext.Value `json:"error"`
	// EmittedMS is when the program sent it, in Unix milliseconds.
	EmittedMS int64 `json:"emittedAtMs"`

	// Of `codex exec --json`, and of the line that represents a prompt on the command
	// line.
	Type     string         `json:"type"`
	ThreadID string         `json:"thread_id"`
	Item     jsontext.Value `json:"item"`
	Usage    jsontext.Value `json:"usage"`
	Message  jsontext.Value `json:"message"`
	Text     jsontext.Value `json:"text"`
}

// params has the fields of the notifications and requests that are translated.
// They share most of them.
type params struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	ItemID   string `json:"itemId"`

	Item  *item          `json:"item"`
	Delta string         `json:"delta"`
	Turn  *wireTurn      `json:"turn"`
	Usage *tokenUsage    `json:"tokenUsage"`
	Error *turnError     `json:"error"`
	Retry bool           `json:"willRetry"`
	Index int            `json:"summaryIndex"`
	Text  jsontext.Value `json:"message"`
	// Summary and Details are those of a notice.
	Summary   jsontext.Value `json:"summary"`
	RequestID jsontext.Value `json:"requestId"`
	Thread    *wireThread    `json:"thread"`

	// Of requests for approval.
	Reason    string         `json:"reason"`
	Command   string         `json:"command"`
	Questions jsontext.Value `json:"questions"`
	Server    string         `json:"serverName"`
	Meta      *approval      `json:"_meta"`

	// Of requests of the host.
	ClientID string         `json:"clientUserMessageId"`
	Model    string         `json:"model"`
	Input    jsontext.Value `json:"input"`
}

// approval is the subject of an MCP question when it is the program's own.
type approval struct {
	Kind   string         `json:"codex_approval_kind"`
	Tool   string         `json:"tool_name"`
	Params jsontext.Value `json:"tool_params"`
}

type wireThread struct {
	ID     string `json:"id"`
	Parent string `json:"parentThreadId"`
}

type wireTurn struct {
	ID     string     `json:"id"`
	Status string     `json:"status"`
	Error  *turnError `json:"error"`
	// DurationMS is in milliseconds.
	DurationMS int64 `json:"durationMs"`
}

// turnError is why a turn failed, in the form of the stream and of rollouts.
type turnError struct {
	Message string         `json:"message"`
	Info    jsontext.Value `json:"codexErrorInfo"`
	Disk    jsontext.Value `json:"codex_error_info"`
	Details string         `json:"additionalDetails"`
}

type tokenUsage struct {
	Total struct {
		Tokens int64 `json:"totalTokens"`
	} `json:"total"`
	Last struct {
		Input      int64 `json:"inputTokens"`
		Cached     int64 `json:"cachedInputTokens"`
		CacheWrite int64 `json:"cacheWriteInputTokens"`
		Output     int64 `json:"outputTokens"`
	} `json:"last"`
}

// usage is the token counts of `codex exec --json`.
type usage struct {
	Input      int64 `json:"input_tokens"`
	Cached     int64 `json:"cached_input_tokens"`
	CacheWrite int64 `json:"cache_write_input_tokens"`
	Output     int64 `json:"output_tokens"`
}

func (u usage) event() event.Usage {
	return event.Usage{
		InputTokens: max(u.Input-u.Cached, 0), OutputTokens: u.Output,
		CacheReadTokens: u.Cached, CacheWriteTokens: u.CacheWrite,
	}
}

// tokenInfo is what a rollout says of a model call and of all before it.
type tokenInfo struct {
	Total struct {
		Tokens int64 `json:"total_tokens"`
	} `json:"total_token_usage"`
	Last usage `json:"last_token_usage"`
}

// response is what the responses that matter here say.
type response struct {
	Thread *wireThread `json:"thread"`
	Turn   *wireTurn   `json:"turn"`
	Model  string      `json:"model"`
}

// answer is the body of the host's response to a request of the program.
type answer struct {
	Decision    jsontext.Value            `json:"decision"`
	Action      string                    `json:"action"`
	Answers     map[string]jsontext.Value `json:"answers"`
	Permissions map[string]jsontext.Value `json:"permissions"`
}

// rolloutLine is a line of a rollout file.
type rolloutLine struct {
	Timestamp string         `json:"timestamp"`
	Type      string         `json:"type"`
	Payload   jsontext.Value `json:"payload"`
}

// payload has the fields of the rollout lines that are translated.
type payload struct {
	Type   string `json:"type"`
	TurnID string `json:"turn_id"`

	// Of event_msg.
	Item        *item      `json:"item"`
	StartedMS   int64      `json:"started_at_ms"`
	CompletedMS int64      `json:"completed_at_ms"`
	Error       *turnError `json:"error"`
	DurationMS  int64      `json:"duration_ms"`
	Info        *tokenInfo `json:"info"`

	// Of response_item.
	Name      string         `json:"name"`
	Namespace string         `json:"namespace"`
	CallID    string         `json:"call_id"`
	Arguments jsontext.Value `json:"arguments"`
	Output    jsontext.Value `json:"output"`
}

// sessionMeta is the first line of a rollout.
type sessionMeta struct {
	ID         string `json:"id"`
	SessionID  string `json:"session_id"`
	Parent     string `json:"parent_thread_id"`
	Originator string `json:"originator"`
}
