package event

import (
	"cmp"
	"encoding/json"
	"time"
)

// BlockUpsert creates the block or merges the fields given into it.
type BlockUpsert struct {
	body
	Block Block `json:"block"`
}

// BlockDelta appends text to the content of a block.
type BlockDelta struct {
	body
	BlockID string `json:"blockId"`
	Delta   string `json:"delta"`
}

// BlockPlaced means that a block's place, behind those that were created before it, is not in the
// agent's transcripts. It is the server's and changes no conversation: Sojourn's transcript keeps it.
type BlockPlaced struct {
	body
	BlockID string `json:"blockId"`
}

// MetadataUpdate reports usage and cost. With Total, Usage and CostUSD are the
// agent process's own totals so far; without, they are the increments since the
// last report.
type MetadataUpdate struct {
	body
	Total   bool     `json:"total,omitempty"`
	Usage   *Usage   `json:"usage,omitempty"`
	CostUSD *float64 `json:"costUSD,omitempty"`
	Model   string   `json:"model,omitempty"`
	// Calls counts the model calls of this conversation that have begun since the last
	// report. An agent that can't tell one from another reports none.
	Calls int `json:"calls,omitempty"`
	// Extra carries what an agent reports beyond that (rate limits, retries).
	Extra json.RawMessage `json:"extra,omitempty"`
}

// AddKnown is the sum of two figures, such as costs; an unknown one is nil and adds
// nothing.
func AddKnown[T int | float64](a, b *T) *T {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	sum := *a + *b
	return &sum
}

// Usage counts model tokens.
type Usage struct {
	InputTokens      int64 `json:"inputTokens"`
	OutputTokens     int64 `json:"outputTokens"`
	CacheReadTokens  int64 `json:"cacheReadTokens,omitempty"`
	CacheWriteTokens int64 `json:"cacheWriteTokens,omitempty"`
}

// Add returns the sum of both.
func (u Usage) Add(v Usage) Usage {
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.CacheReadTokens += v.CacheReadTokens
	u.CacheWriteTokens += v.CacheWriteTokens
	return u
}

// SubagentSpawned means that a subagent began. For a native subagent the
// context's conversation is the parent's; ChildSessionID is set only for children
// that are themselves Sojourn sessions.
type SubagentSpawned struct {
	body
	ToolUseID      string `json:"toolUseId"`
	AgentID        string `json:"agentId,omitempty"`
	Prompt         string `json:"prompt"`
	SubagentType   string `json:"subagentType,omitempty"`
	Description    string `json:"description,omitempty"`
	ChildSessionID string `json:"childSessionId,omitempty"`
}

// SubagentCompleted means that a subagent ended. Usage is a child session's, its own.
type SubagentCompleted struct {
	body
	ToolUseID      string         `json:"toolUseId"`
	AgentID        string         `json:"agentId,omitempty"`
	Status         SubagentResult `json:"status"`
	Output         *string        `json:"output,omitempty"`
	DurationMS     *int64         `json:"durationMs,omitempty"`
	Usage          *Usage         `json:"usage,omitempty"`
	ChildSessionID string         `json:"childSessionId,omitempty"`
}

// SubagentResult is how a subagent ended.
type SubagentResult string

// The results of a subagent.
const (
	SubagentCompletedOK SubagentResult = "completed"
	SubagentFailed      SubagentResult = "failed"
)

// SessionInitialized is the first event of a run of the session.
type SessionInitialized struct {
	body
	Agent    string `json:"agent"`
	Profile  string `json:"profile,omitempty"`
	Title    string `json:"title,omitempty"`
	Parent   string `json:"parent,omitempty"`
	Reopened bool   `json:"reopened,omitempty"`
}

// SessionIdle means that the agent finished its turn in this conversation; the
// reducer completes what is pending there.
type SessionIdle struct {
	body
	StopReason  string `json:"stopReason,omitempty"`
	Interrupted bool   `json:"interrupted,omitempty"`
	// Unheard: the agent was interrupted before it reacted to its prompt. It may not have
	// stored it, or not be in order: its process is ended.
	Unheard bool `json:"unheard,omitempty"`
	// Error is set when the agent's last turn failed (a model API error, say).
	Error *ErrorInfo `json:"error,omitempty"`
}

// SessionClosed is the last event of a run of the session.
type SessionClosed struct {
	body
	Reason string `json:"reason,omitempty"`
}

// ErrorInfo is an error on the wire.
type ErrorInfo struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
	// Field names the input field at fault, for bad input.
	Field string          `json:"field,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"`
}

// Environment is the body of the ee:* events (execution environment).
type Environment struct {
	body
	SandboxID string `json:"sandboxId,omitempty"`
	Host      string `json:"host,omitempty"`
	Provider  string `json:"provider,omitempty"`
	// Epoch is the session's epoch under which the sandbox was made.
	Epoch uint64 `json:"epoch,omitempty"`
	// Status is starting, ready, unhealthy or terminated.
	Status       string `json:"status,omitempty"`
	RestartCount int    `json:"restartCount,omitempty"`
	// LastHealthCheck is the time of the last check; zero for never.
	LastHealthCheck time.Time `json:"lastHealthCheck,omitzero"`
	// Reason is why it ended: manual, idle, slot, drain, age, parent, terminated, or unhealthy
	// for one that was lost.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

type (
	// EECreating means that a sandbox is being made. It is the first event of a
	// session's activation.
	EECreating struct{ Environment }
	// EEReady means that the sandbox can take a query.
	EEReady struct{ Environment }
	// EETerminated means that the sandbox has ended.
	EETerminated struct{ Environment }
	// EEError means that a sandbox could not be made or was lost.
	EEError struct{ Environment }
	// EEHealthCheck reports a check of the sandbox.
	EEHealthCheck struct{ Environment }
)

// Query is the body of the query:* events: one execution, that is, one or
// more messages answered by the agent in one turn.
type Query struct {
	body
	ExecutionID string   `json:"executionId"`
	MessageIDs  []string `json:"messageIds,omitempty"`
	// Message is the prompt, shortened for display (query:started only).
	Message    string       `json:"message,omitempty"`
	DurationMS int64        `json:"durationMs,omitempty"`
	Error      *ErrorInfo   `json:"error,omitempty"`
	Reason     string       `json:"reason,omitempty"`
	Result     *QueryResult `json:"result,omitempty"`
	// Queued: it ended in the queue, before it began. Another one may run.
	Queued bool `json:"queued,omitempty"`
}

// QueryResult is the result of an execution.
type QueryResult struct {
	// Response is the text of the last assistant_text block of the main conversation.
	// In query events it is truncated at 16 KiB.
	Response string `json:"response"`
	// Truncated reports whether Response is truncated.
	Truncated bool `json:"truncated,omitempty"`
	// ResponseBlockID is the block of the main conversation whose content is the
	// whole response; empty if there is none.
	ResponseBlockID string `json:"responseBlockId,omitempty"`
	StopReason      string `json:"stopReason,omitempty"`
	Usage           Usage  `json:"usage"`
	// CostUSD is the turn's cost as the agent reported it, or by the worker's prices if it
	// reports none; nil if it is unknown.
	CostUSD *float64 `json:"costUSD,omitempty"`
	// Ticks counts the model calls of the main conversation; nil for an agent that
	// reports none.
	Ticks *int `json:"ticks,omitempty"`
	// LastSeq is the sequence number of the last event of the agent's turn.
	LastSeq uint64 `json:"lastSeq,omitempty"`
}

type (
	// QueryStarted means that an execution began.
	QueryStarted struct{ Query }
	// QueryCompleted means that the agent answered.
	QueryCompleted struct{ Query }
	// QueryFailed means that the execution ended without an answer; Error is the
	// reason.
	QueryFailed struct{ Query }
	// QueryInterrupted means that the execution was stopped and the agent is quiet.
	QueryInterrupted struct{ Query }
)

// MessageRef names a message that was passed to a running agent.
type MessageRef struct {
	body
	MessageID string `json:"messageId"`
}

type (
	// MessageFolded means that a steering message was taken into the running turn.
	MessageFolded struct{ MessageRef }
	// MessageOwnTurn means that a steering message got a turn of its own.
	MessageOwnTurn struct{ MessageRef }
)

// File is the body of the file:* events; Path is relative to the workspace.
type File struct {
	body
	Path    string  `json:"path"`
	Content *string `json:"content,omitempty"`
	Size    int64   `json:"size,omitempty"`
	SHA256  string  `json:"sha256,omitempty"`
}

type (
	// FileCreated means that a workspace file appeared.
	FileCreated struct{ File }
	// FileModified means that a workspace file changed.
	FileModified struct{ File }
	// FileDeleted means that a workspace file was deleted.
	FileDeleted struct{ File }
)

// Transcript is the body of the transcript:* events.
type Transcript struct {
	body
	// ID is main or the subagent's id.
	ID string `json:"id"`
	// Offset is the length in bytes of what is archived (changed) or restored into a
	// sandbox (written).
	Offset int64  `json:"offset"`
	SHA256 string `json:"sha256,omitempty"`
}

type (
	// TranscriptChanged means that the archive holds more of a transcript.
	TranscriptChanged struct{ Transcript }
	// TranscriptWritten means that a transcript was restored into a sandbox.
	TranscriptWritten struct{ Transcript }
)

// PermissionRequested means that the agent asks before it runs a tool, or asks
// the user a question.
type PermissionRequested struct {
	body
	RequestID string          `json:"requestId"`
	ToolName  string          `json:"toolName,omitempty"`
	ToolUseID string          `json:"toolUseId,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Title     string          `json:"title,omitempty"`
	// Questions is set when the request is a question to the user.
	Questions json.RawMessage `json:"questions,omitempty"`
}

// Who answered a request, other than a named person.
const (
	// ByUser is a person who gave no name.
	ByUser = "user"
	// ByPolicy is the session's rules or default answer.
	ByPolicy = "policy"
	// ByDeadline: no person answered in time.
	ByDeadline = "deadline"
)

// PermissionResolved has the answer to a request; Decision is allow, deny or
// cancelled. By is a person's name, ByUser, ByPolicy or ByDeadline; "" if the
// agent itself decided.
type PermissionResolved struct {
	body
	RequestID string `json:"requestId"`
	Decision  string `json:"decision"`
	By        string `json:"by,omitempty"`
	Message   string `json:"message,omitempty"`
}

// OptionsUpdate reports changed options; nil fields did not change.
type OptionsUpdate struct {
	body
	Title          *string                    `json:"title,omitempty"`
	Model          *string                    `json:"model,omitempty"`
	PermissionMode *string                    `json:"permissionMode,omitempty"`
	Metadata       map[string]json.RawMessage `json:"metadata,omitempty"`
	Tags           []string                   `json:"tags,omitzero"`
}

// Status is the unified status event: the state of the session's runtime,
// and, as the first append of every attempt, the fence of the stream.
type Status struct {
	body
	State   string   `json:"state,omitempty"`
	Epoch   uint64   `json:"epoch,omitempty"`
	Attempt int      `json:"attempt,omitempty"`
	Runtime *Runtime `json:"runtime,omitempty"`
	Message string   `json:"message,omitempty"`
}

// Runtime is what currently runs for a session.
type Runtime struct {
	IsLoaded bool         `json:"isLoaded"`
	Sandbox  *Environment `json:"sandbox"`
}

// Log is a line for operators; Level is debug, info, warn or error.
type Log struct {
	body
	Level   string          `json:"level"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error is a fault that is not a block of the conversation. MessageID is the message that
// the agent's server refused to take; "" for any other fault.
type Error struct {
	body
	ErrorInfo
	MessageID string `json:"messageId,omitempty"`
}
