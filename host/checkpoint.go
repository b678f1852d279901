package host

import (
	"encoding/json"
	"time"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/steering"
	"github.com/sojourn-run/sojourn/turn"
)

// Checkpoint is how far the turns in a sandbox have come. The zero value is a new
// sandbox's.
type Checkpoint struct {
	// Offset is where the next turn's records start in the spool.
	Offset int64 `json:"offset"`
	// Translator is the translator's state at Offset.
	Translator json.RawMessage `json:"translator,omitempty"`
	// Parsed is how far the agent's transcripts were parsed when a completed turn ended.
	// Default: nothing was parsed yet.
	Parsed json.RawMessage `json:"parsed,omitempty"`
	// Ended is the last execution that ended, and Output its output: an attempt at the same
	// execution only returns it.
	Ended  string                  `json:"ended,omitempty"`
	Output *contract.RunTurnOutput `json:"output,omitempty"`
	// Unarchived reports whether the end of Ended may be missing in the archive.
	Unarchived bool `json:"unarchived,omitempty"`
	// Model and Permission are what the live agent was last set to. An agent that must ask
	// because of rules was set to ask.
	Model      string `json:"model,omitempty"`
	Permission string `json:"permission,omitempty"`
	// Unhealthy reports whether the agent died and was not restarted since.
	Unhealthy bool `json:"unhealthy,omitempty"`
	// Open is the execution that has started and not ended.
	Open *Execution `json:"open,omitempty"`
	// Server are server blocks that could not be archived yet.
	Server []archive.ServerEntry `json:"own,omitempty"`
	// EndReport is what is reported of the sandbox when it has ended; nil until it is ended.
	EndReport *EndReport `json:"endReport,omitempty"`
}

// EndReport is what is known of a sandbox only until it ends. It is saved before: an attempt
// at its end may die before it has reported this.
type EndReport struct {
	// Kept has the events of what was archived last.
	Kept []event.Event `json:"kept,omitempty"`
	// Left names what could not be archived.
	Left []string `json:"left,omitempty"`
}

// Execution is what an attempt needs of earlier ones and can't read from spool and stream.
type Execution struct {
	ExecutionID string `json:"executionId"`
	// MessageID is "" in checkpoints of older builds.
	MessageID string `json:"messageId,omitempty"`
	// Running are the processes below the agent before the turn.
	Running runner.Mark `json:"running"`
	// Options are the changes while the turn ran.
	Options contract.Options `json:"options,omitzero"`
	// Bounds are the latest that reached an attempt at the activity BoundsOf, whose input has
	// older ones. BoundsOf is "" if none did.
	Bounds   contract.Bounds `json:"bounds,omitzero"`
	BoundsOf string          `json:"boundsOf,omitempty"`
	// Interrupt is sent to the agent once it is saved here and the agent can take it, under
	// InterruptID; "" in checkpoints of older builds.
	Interrupt   *contract.Interrupt `json:"interrupt,omitempty"`
	InterruptID string              `json:"interruptId,omitempty"`
	// InterruptedAt is when it was sent. While InterruptWaits is set it is when it counts as
	// sent at the latest; false in checkpoints of older builds.
	InterruptedAt  time.Time `json:"interruptedAt,omitzero"`
	InterruptWaits bool      `json:"interruptWaits,omitempty"`
	// Completed reports whether the agent has completed the turn. It is saved before the
	// stream has the end, which then stays the same however often it has to be written.
	Completed bool `json:"completed,omitempty"`
	// Answers are those to permission requests that the policy did not answer.
	Answers map[string]turn.Responded `json:"answers,omitempty"`
	// Steered are the messages that the agent was sent while it worked. Taken is set for
	// those that an earlier agent had taken.
	Steered steering.Messages `json:"steered,omitempty"`
	// Cut is the turn's failure when Sojourn itself interrupted it.
	Cut *event.ErrorInfo `json:"cut,omitempty"`
	// Parked is how the turn is being parked; nil if it is not.
	Parked *turn.Park `json:"parked,omitempty"`
	// ParkedOutput is what its agent had used when that began; nil also in checkpoints of
	// older builds.
	ParkedOutput *contract.RunTurnOutput `json:"parkedOutput,omitempty"`
	// UsedBefore is what the execution had used before its agent was lost, without what was
	// counted when it was parked.
	UsedBefore limits.Execution `json:"usedBefore,omitzero"`
	// Resume is how the turn continues after its agent was lost; nil if it was not.
	Resume *turn.Resume `json:"resume,omitempty"`
}

// Began reports whether an earlier attempt started the execution. After a reset another
// message may have its id.
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

// Facts returns the part on which a plan depends.
func (c Checkpoint) Facts() turn.Checkpoint {
	f := turn.Checkpoint{Ended: c.Ended, Unarchived: c.Unarchived}
	if c.Output == nil {
		f.Ended = ""
	} else {
		f.EndedMessage = c.Output.Result.MessageID
	}
	if o := c.Open; o != nil {
		f.Open, f.OpenMessage, f.RunnerLost, f.Interrupted = o.ExecutionID, o.MessageID, o.Resume != nil, o.Interrupt != nil
		f.Parked = o.Parked != nil
	}
	return f
}
