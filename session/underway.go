package session

import (
	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// UnderWay is a turn that one run of the workflow leaves at work and the next
// one takes up: its agent notices nothing.
type UnderWay struct {
	Queued
	// AfterSeq is a sequence number before everything of the execution, and
	// Anchor the last block of the main conversation there.
	AfterSeq uint64 `json:"afterSeq"`
	Anchor   string `json:"anchor,omitempty"`
	// Lost is the last host that was lost in the middle of it; nil for none.
	Lost *Lost `json:"lost,omitempty"`
	// Interrupted reports whether it was to be interrupted, with the reason.
	Interrupted bool   `json:"interrupted,omitempty"`
	Reason      string `json:"reason,omitempty"`
}

// Lost is a host that was lost in the middle of an execution.
type Lost struct {
	Host string `json:"host"`
	// Times counts the hosts that this execution has lost, this one included.
	Times int `json:"times"`
	// AfterSeq is a sequence number before everything of the execution.
	AfterSeq uint64 `json:"afterSeq"`
	// Why is what was lost, in words; "" for a host that does not answer.
	Why string `json:"why,omitempty"`
	// Ended is how the execution had ended by the host's last heartbeat; nil if it
	// had not.
	Ended *Result `json:"ended,omitempty"`
}

// Notice is something that the workflow itself has to say: events for the
// stream, or options for the live agent.
type Notice struct {
	// Key makes a repeated write safe.
	Key    string        `json:"key"`
	Events []event.Event `json:"events,omitempty"`
	// Model and Permission are set in the live agent; "" for no change.
	Model      string              `json:"model,omitempty"`
	Permission adapters.Permission `json:"permission,omitempty"`
}
