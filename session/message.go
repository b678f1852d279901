package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
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
	// Text is the prompt. It may be empty only if there are Parts.
	Text string `json:"text"`
	// Parts are images and further text, after Text.
	Parts []event.Part `json:"parts,omitempty"`
	// WhenBusy chooses what happens while a turn runs. Default: BusyQueue.
	WhenBusy BusyPolicy `json:"whenBusy,omitempty"`
	// MaxTicks is how many model calls the agent may make for this message: the next
	// one interrupts the turn, whose stop reason is then max_ticks. Default: the session's.
	MaxTicks int `json:"maxTicks,omitempty"`
}

// clip shortens a value that an error quotes.
func clip(s string) string { return s[:min(len(s), 64)] }

// BusyPolicy chooses what happens to a message that arrives while a turn runs.
type BusyPolicy string

const (
	// BusyQueue runs it after the queued ones.
	BusyQueue BusyPolicy = "queue"
	// BusyInterrupt stops the running turn and runs it next.
	BusyInterrupt BusyPolicy = "interrupt"
	// BusyReject refuses it with ErrBusy.
	BusyReject BusyPolicy = "reject"
	// BusySteer is sent to the working agent, which folds it into the running execution. It
	// queues if that is impossible: the agent can't be steered, no turn is on a host yet,
	// or the turn is being interrupted. Receipt.Handling has the outcome.
	BusySteer BusyPolicy = "steer"
)

// Handling is what was done with a message of BusySteer when its receipt was returned.
type Handling string

const (
	// HandlingQueued: it waits for its own execution, as with BusyQueue.
	HandlingQueued Handling = "queued"
	// HandlingHanded: the working agent has it. The event message:folded, or
	// message:own-turn, follows when the agent takes it, and the end of the running
	// execution names it. If the agent ends before, or refuses it (an error event that
	// names it), it runs next, as its own execution.
	HandlingHanded Handling = "handed"
)

// Validate checks what doesn't depend on the session.
func (m Message) Validate() error {
	if m.ID != "" {
		if err := ValidateID("message.id", m.ID); err != nil {
			return err
		}
	}
	if strings.TrimSpace(m.Text) == "" && len(m.Parts) == 0 {
		return Invalid("message.text", "is empty", "some text, or parts")
	}
	if err := cmp.Or(m.validateTexts(), validateMaxTicks("message.maxTicks", m.MaxTicks)); err != nil {
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
	for i, p := range m.Parts {
		if err := validatePart(fmt.Sprintf("message.parts[%d]", i), p); err != nil {
			return err
		}
	}
	return nil
}

func validatePart(field string, p event.Part) error {
	switch {
	case p.Type != "text" && p.Type != "image":
		return Invalid(field+".type", fmt.Sprintf("%q is unknown", clip(p.Type)), "text or image")
	case p.Type == "image" && p.Data == "" && p.URL == "":
		return Invalid(field, "is an image without data and url", "one of them")
	}
	return firstUTF8(field+".text", p.Text, field+".url", p.URL, field+".data", p.Data, field+".mediaType", p.MediaType)
}

// Size returns about how many bytes the message takes as JSON.
func (m Message) Size() int {
	n := len(m.ID) + len(m.Text) + 64
	for _, p := range m.Parts {
		n += len(p.Text) + len(p.Data) + len(p.URL) + len(p.MediaType) + 64
	}
	return n
}

// jsonGrowth is the maximum number of bytes that JSON writes for one: \u0000.
const jsonGrowth = 6

// validateSize encodes the message only if it may be too large: large messages
// may arrive in numbers, and a workflow has little time for each.
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

// escapes returns an upper bound of the bytes that JSON adds to a text: \u0000 for one
// byte, or for the three of a line separator.
func escapes(s string) (n int) {
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			n++
		case c < ' ' || c == '<' || c == '>' || c == '&' || c == 0x7f:
			n += jsonGrowth - 1
		case c == 0xe2: // the first byte of U+2028 and U+2029
			n += 3
		}
	}
	return n
}

func (p BusyPolicy) validate() error {
	switch p {
	case "", BusyQueue, BusyInterrupt, BusyReject, BusySteer:
		return nil
	}
	return Invalid("message.whenBusy", fmt.Sprintf("%q is unknown", clip(string(p))), "queue, interrupt, reject or steer")
}

// Receipt confirms that a message was accepted: it will be answered, or its
// failure will be in the conversation.
type Receipt struct {
	SessionID   string `json:"sessionId"`
	MessageID   string `json:"messageId"`
	ExecutionID string `json:"executionId"`
	// AfterSeq precedes every event that this message will cause in the stream.
	AfterSeq uint64 `json:"afterSeq"`
	// Digest identifies the message's content, as Message.Digest does.
	Digest string `json:"digest,omitempty"`
	// Handling is set for messages of BusySteer. A message that is folded into the running
	// execution ends with that one: ExecutionID is then that of no execution, but Wait and
	// Result accept it.
	Handling Handling `json:"handling,omitempty"`
}

// RenderRequest applies options and runs the queue. If nothing is queued and nothing runs,
// a change runs an execution of its own, with RenderText.
type RenderRequest struct {
	Options Configure `json:"options"`
}

// RenderReply is the result of a render.
type RenderReply struct {
	Changed bool `json:"changed"`
	// Receipts are of the running execution, whose agent applies the change at once,
	// and of those that will run, in order; empty if there are none.
	Receipts []Receipt `json:"receipts"`
}

// InterruptRequest stops the running turn, and those of all children.
type InterruptRequest struct {
	// Message is sent next, before what is queued; if neither a turn nor a child of the
	// session runs it is only queued. Its WhenBusy is ignored: the turn into which it could
	// be folded is stopped. Optional.
	Message *Message `json:"message,omitempty"`
	// Reason is stored in the query:interrupted event.
	Reason string `json:"reason,omitempty"`
	// ExecutionID, if set, must be the running execution; otherwise the request is refused.
	ExecutionID string `json:"executionId,omitempty"`
	// ClearQueue also cancels the queued messages, before Message is taken: see
	// QueueEdit.Cancel.
	ClearQueue bool `json:"clearQueue,omitempty"`
}

// Validate checks what doesn't depend on the session.
func (r InterruptRequest) Validate() error {
	if err := validateText("reason", r.Reason, maxReason); err != nil || r.Message == nil {
		return err
	}
	return r.Message.Validate()
}

// InterruptReply is returned when the interrupt is accepted; query:interrupted
// follows in the stream when the agent is quiet.
type InterruptReply struct {
	// Running reports whether the session or a child of it was running. If not,
	// Message is only queued.
	Running bool     `json:"running"`
	Receipt *Receipt `json:"receipt,omitempty"`
	// Cancelled is what ClearQueue removed from the queue, whole, in its order.
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

// Validate checks what doesn't depend on the session, but for the options, which the child
// completes with its parent's.
func (r SpawnRequest) Validate() error {
	return cmp.Or(validateText("toolUseId", r.ToolUseID, maxKeyword), validateText("description", r.Description, maxReason), r.Message.Validate())
}

// SpawnReply names the child.
type SpawnReply struct {
	ChildID   string `json:"childId"`
	ToolUseID string `json:"toolUseId"`
	Depth     int    `json:"depth"`
	// Starting reports that the child does not run yet: the parent's workflow was
	// about to continue as new, and its next run starts the child.
	Starting bool `json:"starting,omitempty"`
}

// RespondRequest answers a permission request or a question.
type RespondRequest struct {
	RequestID string `json:"requestId"`
	Allow     bool   `json:"allow"`
	// Message is passed to the agent with a denial.
	Message string `json:"message,omitempty"`
	// Input replaces the tool's input.
	Input json.RawMessage `json:"input,omitempty"`
	// By is who answers, as the stream reports it. Default: event.ByUser.
	By string `json:"by,omitempty"`
}

// Decision returns the answer as a parked turn stores it.
func (r RespondRequest) Decision() permission.Decision {
	return permission.Decision{Allow: r.Allow, Message: r.Message, Given: r.Input, By: cmp.Or(r.By, event.ByUser)}
}

// Validate returns an error for the first invalid field.
func (r RespondRequest) Validate() error {
	switch {
	case r.RequestID == "":
		return Invalid("requestId", "is empty", "the id of a permission:requested event")
	case r.By == event.ByPolicy || r.By == event.ByDeadline:
		return Invalid("by", fmt.Sprintf("is %q, which is not a person", r.By), "who answers, or nothing")
	case len(r.Input) > 0 && !json.Valid(r.Input):
		return Invalid("input", "is no JSON", "the tool's whole input as JSON, or nothing to leave it as it is")
	case len(r.Input) > MaxMessageBytes:
		return Invalid("input", fmt.Sprintf("is %d bytes", len(r.Input)), fmt.Sprintf("at most %d bytes", MaxMessageBytes))
	case len(r.By) > maxKeyword || !utf8.ValidString(r.By) || strings.ContainsFunc(r.By, unicode.IsControl):
		return Invalid("by", "is no name", fmt.Sprintf("at most %d bytes of UTF-8 without control characters", maxKeyword))
	}
	return cmp.Or(validateText("message", r.Message, maxAnswer), validateText("requestId", r.RequestID, maxKeyword))
}

// maxAnswer bounds the message to the agent that a denial has, in bytes.
const maxAnswer = 64 << 10

// Waiting is the payload of the signal waiting: the permission requests of the
// running execution that wait for a person, oldest first; none when it continues.
type Waiting struct {
	ExecutionID string   `json:"executionId"`
	Requests    []string `json:"requests"`
}

// EvictRequest ends a session's sandbox. The zero value is a person's request.
type EvictRequest struct {
	// SandboxID, if set, must be that of the session's sandbox; otherwise the request
	// is refused.
	SandboxID string `json:"sandboxId,omitempty"`
	// Reason is the reason in the stream for the sandbox's end. Default: EvictManual.
	Reason string `json:"reason,omitempty"`
}

// Validate checks what doesn't depend on the session.
func (r EvictRequest) Validate() error {
	if all := []string{EvictManual, EvictForSlot, EvictUnhealthy, EvictForDrain, EvictForAge, EvictForParent}; r.Reason != "" && !slices.Contains(all, r.Reason) {
		return Invalid("reason", fmt.Sprintf("%q is unknown", clip(r.Reason)), "one of "+strings.Join(all, ", ")+", or nothing")
	}
	return nil
}

// Reasons of an eviction.
const (
	EvictManual = "manual"
	// EvictForSlot: a host needed the idle sandbox's slot for another session.
	EvictForSlot = "slot"
	// EvictUnhealthy: the agent died between turns.
	EvictUnhealthy = "unhealthy"
	// EvictForDrain: the host is being drained.
	EvictForDrain = "drain"
	// EvictForAge: the sandbox has the greatest age that its host allows.
	EvictForAge = "age"
	// EvictForParent: the sandbox is in that of the session's parent, which ends.
	EvictForParent = "parent"
)

// EvictsBusy reports whether an eviction for this reason is accepted also while a turn runs
// or is queued: it ends the sandbox before the next turn.
func EvictsBusy(reason string) bool {
	return reason == EvictForDrain || reason == EvictForAge || reason == EvictForParent
}

// Configure changes a session; nil fields don't change.
type Configure struct {
	Title      *string              `json:"title,omitempty"`
	Model      *string              `json:"model,omitempty"`
	Permission *adapters.Permission `json:"permission,omitempty"`
	// Permissions replaces the session's own rules, PermissionDeadline its deadline. A
	// running turn keeps those with which it started.
	Permissions        *permission.Rules    `json:"permissions,omitempty"`
	PermissionDeadline *permission.Deadline `json:"permissionDeadline,omitempty"`
	// Park as in Options; 0 is the default again. A running turn keeps the one with which
	// it started.
	Park *permission.Park `json:"parkMs,omitempty"`
	// UnknownEffects replaces the session's own rules; a running turn keeps those too.
	UnknownEffects *permission.EffectRules    `json:"unknownEffects,omitempty"`
	Metadata       map[string]json.RawMessage `json:"metadata,omitempty"`
	// Tags replaces the tags when not nil.
	Tags []string `json:"tags,omitzero"`
	// IdleTimeout in milliseconds.
	IdleTimeoutMS *int64 `json:"idleTimeoutMs,omitempty"`
	// Limits changes the limits that are set in it, also for a running turn.
	Limits *limits.Change `json:"limits,omitempty"`
	// MaxTicks as in Options, 0 for none; for the messages that run from now on.
	MaxTicks *int `json:"maxTicks,omitempty"`
}

// Empty reports whether nothing changes.
func (c Configure) Empty() bool {
	return c.Title == nil && c.Model == nil && c.Permission == nil && c.Permissions == nil && c.PermissionDeadline == nil && c.Park == nil &&
		c.UnknownEffects == nil && c.Metadata == nil && c.Tags == nil && c.IdleTimeoutMS == nil && c.Limits == nil && c.MaxTicks == nil
}

func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Validate returns an error for the first invalid field.
func (c Configure) Validate() error {
	if c.Permission != nil {
		if err := validatePermission("permission", *c.Permission); err != nil {
			return err
		}
	}
	if err := validateRules(orZero(c.Permissions), orZero(c.PermissionDeadline), orZero(c.Park), orZero(c.UnknownEffects)); err != nil {
		return err
	}
	if err := cmp.Or(validateMaxTicks("maxTicks", orZero(c.MaxTicks)), validateMS("idleTimeoutMs", orZero(c.IdleTimeoutMS))); err != nil {
		return err
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
	if err := validateText("model", orZero(c.Model), maxKeyword); err != nil {
		return err
	}
	return validateBag(c.Metadata, c.Tags)
}
