package session

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/permission"
)

// Message is one message to the agent.
type Message struct {
	// ID makes a repeated send safe: a known id returns the first receipt.
	// Default: a new UUID, chosen by the client (for raw signals by the
	// workflow).
	ID string `json:"id,omitempty"`
	// Text is the prompt. It may be empty only when Parts are given.
	Text string `json:"text"`
	// Parts are images and further text, after Text.
	Parts []event.Part `json:"parts,omitempty"`
	// WhenBusy is what to do while a turn runs. Default: BusyQueue.
	WhenBusy BusyPolicy `json:"whenBusy,omitempty"`
}

// BusyPolicy is what happens to a message that comes while a turn runs.
type BusyPolicy string

const (
	// BusyQueue takes its turn after the ones before it.
	BusyQueue BusyPolicy = "queue"
	// BusyInterrupt stops the running turn and goes next.
	BusyInterrupt BusyPolicy = "interrupt"
	// BusyReject is refused with ErrBusy.
	BusyReject BusyPolicy = "reject"
)

// Validate checks what can be checked without knowing the session.
func (m Message) Validate() error {
	if m.ID != "" {
		if err := ValidateID("message.id", m.ID); err != nil {
			return err
		}
	}
	if strings.TrimSpace(m.Text) == "" && len(m.Parts) == 0 {
		return Invalid("message.text", "is empty", "some text, or parts")
	}
	if err := m.validateTexts(); err != nil {
		return err
	}
	if err := m.WhenBusy.validate(); err != nil {
		return err
	}
	return m.validateSize()
}

func (m Message) validateTexts() error {
	if err := validateUTF8("message.text", m.Text); err != nil {
		return err
	}
	for _, p := range m.Parts {
		if err := firstUTF8("message.parts", p.Text, "message.parts", p.URL, "message.parts", p.Data); err != nil {
			return err
		}
	}
	return nil
}

// Size is about how many bytes the message takes as JSON.
func (m Message) Size() int {
	n := len(m.ID) + len(m.Text) + 64
	for _, p := range m.Parts {
		n += len(p.Text) + len(p.Data) + len(p.URL) + len(p.MediaType) + 64
	}
	return n
}

// jsonGrowth is how many bytes JSON takes for one at most: \u0000.
const jsonGrowth = 6

// validateSize encodes the message only if it may be too large: large messages
// come in numbers, and a workflow has little time for each.
func (m Message) validateSize() error {
	escaped := escapes(m.ID) + escapes(m.Text)
	for _, p := range m.Parts {
		escaped += escapes(p.Text) + escapes(p.Data) + escapes(p.URL) + escapes(p.MediaType)
	}
	if m.Size()+escaped <= MaxMessageBytes {
		return nil
	}
	data, err := json.Marshal(m)
	if err != nil {
		return Invalid("message", err.Error(), "a message that encodes as JSON")
	}
	if len(data) > MaxMessageBytes {
		return Invalid("message", fmt.Sprintf("is %d bytes as JSON", len(data)), fmt.Sprintf("at most %d bytes", MaxMessageBytes))
	}
	return nil
}

// escapes bounds how many bytes JSON adds to a text: \u0000 for one byte, or for
// the three of a line separator.
func escapes(s string) (n int) {
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			n++
		case c < ' ' || c == '<' || c == '>' || c == '&' || c == 0x7f:
			n += jsonGrowth - 1
		case c == 0xe2: // begins U+2028 and U+2029
			n += 3
		}
	}
	return n
}

func (p BusyPolicy) validate() error {
	switch p {
	case "", BusyQueue, BusyInterrupt, BusyReject:
		return nil
	}
	return Invalid("message.whenBusy", fmt.Sprintf("%q is unknown", p), "queue, interrupt or reject")
}

// Receipt confirms that a message was accepted: it will be answered, or its
// failure recorded in the conversation.
type Receipt struct {
	SessionID   string `json:"sessionId"`
	MessageID   string `json:"messageId"`
	ExecutionID string `json:"executionId"`
	// AfterSeq is a sequence number before everything that this message will
	// cause in the stream.
	AfterSeq uint64 `json:"afterSeq"`
	// Digest identifies what the message said, as Message.Digest does.
	Digest string `json:"digest,omitempty"`
}

// RenderRequest applies options and runs what is queued.
type RenderRequest struct {
	Options Configure `json:"options"`
}

// RenderReply is what came of a render.
type RenderReply struct {
	Changed bool `json:"changed"`
	// Receipts are of the execution that runs, whose agent takes the change as it
	// goes, and of those that will run, in order; none when nothing does.
	Receipts []Receipt `json:"receipts"`
}

// InterruptRequest stops the running turn, and those of all children.
type InterruptRequest struct {
	// Message is sent next, before what is queued; in a session where neither a
	// turn nor a child runs it is only queued. Optional.
	Message *Message `json:"message,omitempty"`
	// Reason is kept in the conversation's query:interrupted event.
	Reason string `json:"reason,omitempty"`
	// ClearQueue also cancels what waits, before Message is taken: see
	// QueueEdit.Cancel.
	ClearQueue bool `json:"clearQueue,omitempty"`
}

// Validate checks what can be checked without knowing the session.
func (r InterruptRequest) Validate() error {
	if err := validateUTF8("reason", r.Reason); err != nil || r.Message == nil {
		return err
	}
	return r.Message.Validate()
}

// InterruptReply comes when the interrupt is accepted; query:interrupted
// comes in the stream when the agent is quiet.
type InterruptReply struct {
	// Running reports whether the session or a child of it ran. If not, Message
	// is only queued.
	Running bool     `json:"running"`
	Receipt *Receipt `json:"receipt,omitempty"`
	// Cancelled is what ClearQueue took out of the queue, whole, in its order.
	Cancelled []Message `json:"cancelled,omitempty"`
}

// SpawnRequest starts a child session with a first message.
type SpawnRequest struct {
	// ID of the child. Default: a new UUID, chosen by the client.
	ID      string  `json:"id"`
	Options Options `json:"options"`
	Message Message `json:"message"`
	// ToolUseID is the tool call that this spawn answers, if any.
	ToolUseID   string `json:"toolUseId,omitempty"`
	Description string `json:"description,omitempty"`
}

// SpawnReply names the child.
type SpawnReply struct {
	ChildID   string `json:"childId"`
	ToolUseID string `json:"toolUseId"`
	Depth     int    `json:"depth"`
}

// RespondRequest answers a permission request or a question.
type RespondRequest struct {
	RequestID string `json:"requestId"`
	Allow     bool   `json:"allow"`
	// Message is the text that the agent gets with a denial.
	Message string `json:"message,omitempty"`
	// Input replaces the tool's input.
	Input json.RawMessage `json:"input,omitempty"`
	// By is who answers, as the stream tells it. Default: event.ByUser.
	By string `json:"by,omitempty"`
}

// Validate names the first field that can't be.
func (r RespondRequest) Validate() error {
	switch {
	case r.RequestID == "":
		return Invalid("requestId", "is empty", "the id of a permission:requested event")
	case r.By == event.ByPolicy || r.By == event.ByDeadline:
		return Invalid("by", fmt.Sprintf("is %q, which is not a person", r.By), "who answers, or nothing")
	case len(r.By) > maxKeyword || !utf8.ValidString(r.By) || strings.ContainsFunc(r.By, unicode.IsControl):
		return Invalid("by", "is no name", fmt.Sprintf("at most %d bytes of UTF-8 without control characters", maxKeyword))
	}
	return nil
}

// Waiting is what the signal waiting has: the permission requests of the running
// execution that wait for a person, oldest first; none when it continues.
type Waiting struct {
	ExecutionID string   `json:"executionId"`
	Requests    []string `json:"requests"`
}

// EvictRequest gives up a session's sandbox. The zero value is a person's wish.
type EvictRequest struct {
	// SandboxID, if set, is refused unless it is the session's sandbox.
	SandboxID string `json:"sandboxId,omitempty"`
	// Reason is what the stream says of the sandbox's end. Default: EvictManual.
	Reason string `json:"reason,omitempty"`
}

// Reasons of an eviction.
const (
	EvictManual = "manual"
	// EvictForSlot: a host needed the idle sandbox's slot for another session.
	EvictForSlot = "slot"
	// EvictUnhealthy: the agent died between turns.
	EvictUnhealthy = "unhealthy"
)

// Configure changes a session; nil fields stay.
type Configure struct {
	Title      *string              `json:"title,omitempty"`
	Model      *string              `json:"model,omitempty"`
	Permission *adapters.Permission `json:"permission,omitempty"`
	// Permissions replaces the session's own rules, PermissionDeadline its deadline. A
	// turn at work keeps those that it began with.
	Permissions        *permission.Rules          `json:"permissions,omitempty"`
	PermissionDeadline *permission.Deadline       `json:"permissionDeadline,omitempty"`
	Metadata           map[string]json.RawMessage `json:"metadata,omitempty"`
	// Tags replaces the tags when not nil.
	Tags []string `json:"tags,omitempty"`
	// IdleTimeout in milliseconds.
	IdleTimeoutMS *int64 `json:"idleTimeoutMs,omitempty"`
	// Limits changes those that it names. A turn at work keeps those that it began
	// with.
	Limits *limits.Change `json:"limits,omitempty"`
}

// Empty reports whether nothing is to change.
func (c Configure) Empty() bool {
	return c.Title == nil && c.Model == nil && c.Permission == nil && c.Permissions == nil && c.PermissionDeadline == nil &&
		c.Metadata == nil && c.Tags == nil && c.IdleTimeoutMS == nil && c.Limits == nil
}

func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Validate names the first field that can't be.
func (c Configure) Validate() error {
	if c.Permission != nil {
		if err := validatePermission("permission", *c.Permission); err != nil {
			return err
		}
	}
	if err := validateRules(orZero(c.Permissions), orZero(c.PermissionDeadline)); err != nil {
		return err
	}
	if c.IdleTimeoutMS != nil && *c.IdleTimeoutMS < 0 {
		return Invalid("idleTimeoutMs", "is negative", "0 (default) or more milliseconds")
	}
	if c.Limits != nil {
		if err := validateLimits(limits.Limits{}.With(*c.Limits)); err != nil {
			return err
		}
	}
	if c.Title != nil {
		if err := firstOf(validateIndexed("title", *c.Title), validateUTF8("title", *c.Title)); err != nil {
			return err
		}
	}
	if c.Model != nil {
		if err := validateUTF8("model", *c.Model); err != nil {
			return err
		}
	}
	return validateBag(c.Metadata, c.Tags)
}
