package session

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
)

// Queue is what waits in a session, in the order in which it runs.
type Queue []Queued

// QueueEdit changes one message that waits. Of Message, Place and Cancel exactly
// one is given. What is done twice is refused the second time only if the message
// does not wait any more.
type QueueEdit struct {
	// MessageID names the message. It has to wait: the running one and those that
	// were answered are refused.
	MessageID string `json:"messageId"`
	// Message has the text and the parts that the message says from now on. It
	// keeps its id, its receipt and its place: ID and WhenBusy have no meaning here.
	Message *Message `json:"message,omitempty"`
	// Place is where it waits from now on: 0 runs next. A place behind the last one
	// is the last one.
	Place *int `json:"place,omitempty"`
	// Cancel takes it out: its execution ends as Interrupted, and no agent is asked.
	Cancel bool `json:"cancel,omitempty"`
	// Reason says why it was cancelled, in the conversation.
	Reason string `json:"reason,omitempty"`
}

// Validate checks what can be checked without knowing the session.
func (e QueueEdit) Validate() error {
	if e.MessageID == "" {
		return Invalid("messageId", "is empty", "the id of a message that waits")
	}
	given := 0
	for _, is := range []bool{e.Message != nil, e.Place != nil, e.Cancel} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return Invalid("edit", fmt.Sprintf("gives %d of message, place and cancel", given), "one of them")
	case e.Place != nil && *e.Place < 0:
		return Invalid("place", fmt.Sprintf("%d is negative", *e.Place), "0 for the next, or more")
	case e.Message != nil:
		return e.Message.Validate()
	}
	return validateUTF8("reason", e.Reason)
}

// Find returns the place of a message; -1 if it does not wait.
func (q Queue) Find(messageID string) int {
	return slices.IndexFunc(q, func(w Queued) bool { return w.Message.ID == messageID })
}

// Take returns a message that waits and the queue without it.
func (q Queue) Take(place int) (Queued, Queue) {
	return q[place], slices.Delete(slices.Clone(q), place, place+1)
}

// Move returns the queue with a message at another place.
func (q Queue) Move(from, to int) Queue {
	moved, rest := q.Take(from)
	return slices.Insert(rest, min(to, len(rest)), moved)
}

// Replace returns the queue with a message that says something else.
func (q Queue) Replace(place int, m Message) Queue {
	out := slices.Clone(q)
	out[place].Message.Text, out[place].Message.Parts = m.Text, m.Parts
	return out
}

// Check refuses a queue that is too long or too large: it is part of the state
// that continue-as-new carries in one payload. One message alone is never too large.
func (q Queue) Check() error {
	if len(q) > MaxQueue {
		return Invalid("message", fmt.Sprintf("%d messages wait already", len(q)-1), fmt.Sprintf("a queue of at most %d", MaxQueue))
	}
	size := 0
	for _, w := range q {
		size += w.Message.Size()
	}
	if len(q) > 1 && size > MaxQueueBytes {
		return Invalid("message", fmt.Sprintf("with the %d others that wait it is %d bytes", len(q)-1, size), fmt.Sprintf("a queue of at most %d bytes", MaxQueueBytes))
	}
	return nil
}

// Digest identifies what the message says: its text and its parts.
func (m Message) Digest() string {
	// Not of its JSON: a run that is replayed takes up megabytes of messages within
	// one workflow task.
	sum := sha256.New()
	field := func(s string) {
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
		sum.Write([]byte(s))
	}
	field(m.Text)
	for _, p := range m.Parts {
		for _, s := range []string{p.Type, p.Text, p.MediaType, p.Data, p.URL} {
			field(s)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// EditQueue changes a message that waits, and returns the session as it is then,
// with its queue.
func (h *Handle) EditQueue(ctx context.Context, e QueueEdit) (Snapshot, error) {
	if err := e.Validate(); err != nil {
		return Snapshot{}, err
	}
	var s Snapshot
	return s, h.update(ctx, UpdateEditQueue, "", &s, e)
}
