package contract

import (
	"time"

	"github.com/sojourn-run/sojourn/session"
)

// FinalState is the state of a session's workflow when it was ended from outside; its query
// session.QueryFinalState returns it.
type FinalState struct {
	Agent   Agent            `json:"agent"`
	Record  session.Record   `json:"record"`
	Sandbox *session.Sandbox `json:"sandbox,omitempty"`
	// Turn is above every turn that took the fence.
	Turn int `json:"turn"`
	// Running is the message that was being answered, and Since a sequence number before
	// all its events, with the last block there.
	Running *PendingMessage  `json:"running,omitempty"`
	Since   *Running         `json:"since,omitempty"`
	Waiting []PendingMessage `json:"waiting,omitempty"`
	// Lost is the last host that was lost in the middle of its turn, or given up to wait for
	// a person; nil if none was. Unarchived as in session.State.
	Lost       *session.Lost       `json:"lost,omitempty"`
	Unarchived *session.Unarchived `json:"unarchived,omitempty"`
	// Children are its live child sessions.
	Children []string `json:"children,omitempty"`
	// Unlisted as in FinishInput.
	Unlisted bool `json:"unlisted,omitempty"`
}

// PendingMessage is a message that was accepted and may not be answered.
type PendingMessage struct {
	ExecutionID string `json:"executionId"`
	MessageID   string `json:"messageId"`
	// Title is the message's first line, truncated.
	Title string `json:"title"`
}

// DescribeTerminatedOutput is whether a session has to be reconciled, and its state.
type DescribeTerminatedOutput struct {
	// Termination is how its workflow ended; "" for one that is open again, or that closed
	// itself.
	Termination session.Termination `json:"termination,omitempty"`
	State       FinalState          `json:"state"`
}

// RecordTerminationInput asks to close a terminated session in stream and archive.
type RecordTerminationInput struct {
	Run         session.TerminatedRun `json:"run"`
	Termination session.Termination   `json:"termination"`
	State       FinalState            `json:"state"`
	// HostLost reports that the sandbox's host did not answer: what the agent did last may
	// not be in the archive.
	HostLost bool `json:"hostLost,omitempty"`
}

// ArchiveBehind reports whether the archive may lack what was streamed, and no host has it:
// that of the sandbox does not answer, or one was lost before it. A turn that was parked has
// given up its host, which may have been lost before it had archived all.
func (in RecordTerminationInput) ArchiveBehind() bool {
	st := in.State
	return in.HostLost || st.Lost != nil ||
		st.Unarchived != nil && (st.Sandbox == nil || st.Unarchived.Epoch < st.Sandbox.Epoch)
}

// Since returns a position in the stream before all that the session's end depends on: what
// was being answered, and what the archive may lack.
func (in RecordTerminationInput) Since() CatchUpInput {
	st := in.State
	c := CatchUpInput{SessionID: in.Run.SessionID, LastSeq: st.Record.LastSeq, Anchor: st.Record.LastBlockID}
	if s := st.Since; s != nil {
		c.LastSeq, c.Anchor = s.AfterSeq, s.Anchor
	}
	if !in.ArchiveBehind() {
		return c
	}
	if l := st.Lost; l != nil {
		c.LastSeq = min(c.LastSeq, l.AfterSeq)
	}
	if u := st.Unarchived; u != nil {
		c.LastSeq, c.Anchor = min(c.LastSeq, u.AfterSeq), u.Anchor
	}
	return c
}

// ReconcileTerminatedInput has the earliest end to search for.
type ReconcileTerminatedInput struct {
	After time.Time `json:"after,omitzero"`
}

// ReconcileTerminatedOutput is where the next search starts.
type ReconcileTerminatedOutput struct {
	Next time.Time `json:"next"`
	// Found is the number of terminated sessions.
	Found int `json:"found,omitempty"`
}
