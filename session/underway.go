package session

import (
	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
)

// UnderWay is a turn that one run of the workflow leaves running and the next one
// continues; its agent is not affected.
type UnderWay struct {
	Queued
	// AfterSeq precedes every event of the execution, and Anchor is the last block of
	// the main conversation there.
	AfterSeq uint64 `json:"afterSeq"`
	Anchor   string `json:"anchor,omitempty"`
	// Lost is the last host that was lost during the turn; nil for none.
	Lost *Lost `json:"lost,omitempty"`
	// Interrupted reports whether it is being interrupted, with the reason.
	Interrupted bool   `json:"interrupted,omitempty"`
	Reason      string `json:"reason,omitempty"`
	// Waiting are the permission requests that wait for a person.
	Waiting []string `json:"waiting,omitempty"`
}

// Lost is a host that was lost, or given up, in the middle of an execution.
type Lost struct {
	Host string `json:"host"`
	// Times counts the hosts that this execution has lost, including this one; Parks counts
	// those of them that it gave up itself, to wait for a person.
	Times int `json:"times"`
	Parks int `json:"parks,omitempty"`
	// Parked is what was requested and decided when it was last parked; nil if it never
	// was.
	Parked *permission.Parked `json:"parked,omitempty"`
	// Ticks counts its model calls before it was last parked.
	Ticks int `json:"ticks,omitempty"`
	// AfterSeq is a sequence number before all events of the execution.
	AfterSeq uint64 `json:"afterSeq"`
	// Why describes what was lost; "" for a host that does not answer.
	Why string `json:"why,omitempty"`
	// Ended is how the execution ended according to the host's last heartbeat; nil if
	// it had not.
	Ended *Result `json:"ended,omitempty"`
}

// Notice is what the workflow itself writes: events for the stream, or options
// for the live agent.
type Notice struct {
	// Key makes a repeated write safe.
	Key    string        `json:"key"`
	Events []event.Event `json:"events,omitempty"`
	// Model and Permission are set in the live agent; "" for no change.
	Model      string              `json:"model,omitempty"`
	Permission adapters.Permission `json:"permission,omitempty"`
}
