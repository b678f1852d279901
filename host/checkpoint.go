package host

import (
	"encoding/json"
	"time"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/turn"
)

// Checkpoint is how far the turns in a sandbox have come. The zero value is that
// of a new sandbox.
type Checkpoint struct {
	// Offset is where the next turn's records begin in the spool.
	Offset int64 `json:"offset"`
	// Translator is the translator's state at Offset.
	Translator json.RawMessage `json:"translator,omitempty"`
	// Parsed is how far the agent's transcripts were parsed when a completed turn
	// ended. Default: nothing is parsed yet.
	Parsed json.RawMessage `json:"parsed,omitempty"`
	// Ended is the last execution that ended, and Output its output: an attempt
	// that finds its own execution here only returns it.
	Ended  string                  `json:"ended,omitempty"`
	Output *contract.RunTurnOutput `json:"output,omitempty"`
	// Unarchived reports whether the end of Ended may be missing in the archive.
	Unarchived bool `json:"unarchived,omitempty"`
	// Model and Permission are what the live agent was told last. An agent that must
	// ask because of rules was told ask.
	Model      string `json:"model,omitempty"`
	Permission string `json:"permission,omitempty"`
	// Unhealthy reports whether the agent died and was not started since.
	Unhealthy bool `json:"unhealthy,omitempty"`
	// Open is the execution that has begun and not ended.
	Open *Execution `json:"open,omitempty"`
	// Own are server blocks that could not be archived yet.
	Own []archive.OwnEntry `json:"own,omitempty"`
}

// Execution is what an attempt must know of those before it and can't read from
// spool and stream.
type Execution struct {
	ExecutionID string `json:"executionId"`
	// MessageID is "" in checkpoints of older builds.
	MessageID string `json:"messageId,omitempty"`
	// Running are the processes below the agent before the turn.
	Running runner.Mark `json:"running"`
	// Options were changed while the turn ran.
	Options contract.Options `json:"options,omitzero"`
	// Interrupt was handed to the agent.
	Interrupt *contract.Interrupt `json:"interrupt,omitempty"`
	// InterruptedAt is when that was.
	InterruptedAt time.Time `json:"interruptedAt,omitzero"`
	// Answers are those to permission requests that are not the policy's.
	Answers map[string]turn.Responded `json:"answers,omitempty"`
	// Cut is the turn's failure when Sojourn itself had it interrupted.
	Cut *event.ErrorInfo `json:"cut,omitempty"`
	// Resume is how the turn continues after its agent was lost; nil if it was not.
	Resume *turn.Resume `json:"resume,omitempty"`
}

// Began reports whether an attempt before began the execution. After a reset
// another message may have its id.
func (c Checkpoint) Began(in contract.RunTurnInput) bool {
	return c.Open != nil && c.Open.ExecutionID == in.ExecutionID && (c.Open.MessageID == "" || c.Open.MessageID == in.Message.ID)
}

// Result returns how the execution ended; nil if it has not.
func (c Checkpoint) Result(in contract.RunTurnInput) *session.Result {
	if c.Ended != in.ExecutionID || c.Output == nil || c.Output.Result.MessageID != in.Message.ID {
		return nil
	}
	return &c.Output.Result
}

// Facts returns the part that a plan depends on.
func (c Checkpoint) Facts() turn.Checkpoint {
	f := turn.Checkpoint{Ended: c.Ended, Unarchived: c.Unarchived}
	if c.Output == nil {
		f.Ended = ""
	} else {
		f.EndedMessage = c.Output.Result.MessageID
	}
	if o := c.Open; o != nil {
		f.Open, f.OpenMessage, f.RunnerLost, f.Interrupted = o.ExecutionID, o.MessageID, o.Resume != nil, o.Interrupt != nil
	}
	return f
}
