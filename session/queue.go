package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
)

// Queue is the queued messages, in the order in which they run.
type Queue []Queued

// QueueEdit changes one queued message. Exactly one of Message, Place and Cancel
// is set. A repeated edit is refused only if the message is not queued any more.
type QueueEdit struct {
	// MessageID names the message. It has to be queued: a running or answered one is
	// refused.
	MessageID string `json:"messageId"`
	// Message has the new text and parts of the message. All else is kept: ID, WhenBusy and
	// MaxTicks are ignored here.
	Message *Message `json:"message,omitempty"`
	// Place is its new place: 0 runs next, unless it is held. A place beyond the last one
	// means the last one.
	Place *int `json:"place,omitempty"`
	// Cancel removes it: its execution ends as Interrupted, and no agent is prompted.
	Cancel bool `json:"cancel,omitempty"`
	// Reason is why it was cancelled, for the conversation.
	Reason string `json:"reason,omitempty"`
}

// Validate checks what doesn't depend on the session.
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
	return validateText("reason", e.Reason, maxReason)
}

// Find returns the place of a message; -1 if it is not queued.
func (q Queue) Find(messageID string) int {
	return slices.IndexFunc(q, func(w Queued) bool { return w.Message.ID == messageID })
}

// Next returns the place of the message that runs next; -1 if none waits that may run.
func (q Queue) Next() int {
	return slices.IndexFunc(q, func(w Queued) bool { return !w.Hold })
}

// Add returns the queue with another message: first if it is to run next, but after what only
// has to end. A held one doesn't run, so it is the last one.
func (q Queue) Add(w Queued) Queue {
	at := slices.IndexFunc(q, func(has Queued) bool { return has.Cancelled == "" })
	if at < 0 || w.Hold || w.Message.WhenBusy != BusyInterrupt {
		at = len(q)
	}
	return slices.Insert(slices.Clip(q), at, w)
}

// CancelNext has the execution of the message that runs next end as interrupted, without an
// agent. It reports whether there is one. The first reason is kept.
func (q Queue) CancelNext(reason string) bool {
	at := q.Next()
	if at >= 0 {
		q[at].Cancelled = cmp.Or(q[at].Cancelled, reason, "interrupted before it ran")
	}
	return at >= 0
}

// NextIsCancelled reports whether the message that runs next needs no agent.
func (q Queue) NextIsCancelled() bool {
	at := q.Next()
	return at >= 0 && q[at].Cancelled != ""
}

// Take returns a queued message and the queue without it.
func (q Queue) Take(place int) (Queued, Queue) {
	return q[place], slices.Delete(slices.Clone(q), place, place+1)
}

// Move returns the queue with a message at another place.
func (q Queue) Move(from, to int) Queue {
	moved, rest := q.Take(from)
	return slices.Insert(rest, min(to, len(rest)), moved)
}

// Replace returns the queue with a message's content replaced.
func (q Queue) Replace(place int, m Message) Queue {
	out := slices.Clone(q)
	out[place].Message.Text, out[place].Message.Parts = m.Text, m.Parts
	return out
}

// Offer returns the queue with a message marked as one that the working agent may have: behind
// those that were offered before it, if it was moved.
func (q Queue) Offer(place int) Queue {
	to := place
	for i, w := range q {
		if w.Offered {
			to = max(to, i)
		}
	}
	q = q.Move(place, to)
	q[to].Offered = true
	return q
}

// Offered returns the ids of the messages that the working agent may have, in the order in
// which they were offered.
func (q Queue) Offered() (ids []string) {
	for _, w := range q {
		if w.Offered {
			ids = append(ids, w.Message.ID)
		}
	}
	return ids
}

// Clear returns the waiting messages, and the queue without them. What the working agent
// may have stays, and does not run if the running execution ends without it. What was
// cancelled before stays too.
func (q Queue) Clear(reason string) (waited, rest Queue) {
	for _, w := range q {
		if !w.Offered && w.Cancelled == "" {
			waited = append(waited, w)
			continue
		}
		w.Cancelled = cmp.Or(w.Cancelled, reason)
		rest = append(rest, w)
	}
	return waited, rest
}

// TakeBack returns the queue after the end of an execution that was offered some of it and
// did not take it: that runs next, unless it was cancelled, but after the messages of
// interrupts.
func (q Queue) TakeBack() (next, cancelled Queue) {
	var rest Queue
	for _, w := range q {
		switch {
		case !w.Offered && w.Cancelled == "": // it may have been refused after it was cancelled
			rest = append(rest, w)
		case w.Cancelled != "":
			cancelled = append(cancelled, w)
		default:
			w.Offered = false
			next = append(next, w)
		}
	}
	at := slices.IndexFunc(rest, func(w Queued) bool { return w.Message.WhenBusy != BusyInterrupt })
	if at < 0 {
		at = len(rest)
	}
	return slices.Insert(rest, at, next...), cancelled
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

// Digest identifies the message's content: its text and its parts.
func (m Message) Digest() string {
	// It does not hash the JSON: a replayed run catches up with megabytes of messages
	// within one workflow task.
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

// EditQueue changes a queued message, and returns the session's state after it,
// with its queue.
func (h *Handle) EditQueue(ctx context.Context, e QueueEdit) (s Snapshot, err error) {
	call := &Call{Operation: OperationEditQueue, Request: &e, Reply: &s}
	err = h.intercepted(ctx, call, func(ctx context.Context) error {
		if err := e.Validate(); err != nil {
			return err
		}
		return h.update(ctx, UpdateEditQueue, "", &s, e)
	})
	return s, err
}

// Messages returns the waiting messages, in order; it is never nil.
func (q Queue) Messages() []Message {
	messages := make([]Message, len(q))
	for i, waits := range q {
		messages[i] = waits.Message
	}
	return messages
}

// Named returns the waiting messages with these ids, in order.
func (q Queue) Named(ids []string) []Message {
	named, _ := q.Split(func(w Queued) bool { return slices.Contains(ids, w.Message.ID) })
	return named.Messages()
}

// Split returns the matching messages, and the rest, both in order.
func (q Queue) Split(match func(Queued) bool) (matched, rest Queue) {
	for _, waits := range q {
		if match(waits) {
			matched = append(matched, waits)
		} else {
			rest = append(rest, waits)
		}
	}
	return matched, rest
}
