package turn

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/reducer/loss"
)

// MaxResumes bounds how often an execution is resumed on one host: something in it
// may be what kills the runner. The workflow bounds the hosts by the same number.
const MaxResumes = 3

// Resume is how an execution continues after its runner or host was lost, decided
// once: an agent that has the message in its transcript is told to continue, any
// other is asked again.
type Resume struct {
	// Times counts the losses of this execution, from 1.
	Times int `json:"times"`
	// PromptPersisted reports whether the message is in the agent's transcript.
	PromptPersisted bool `json:"promptPersisted"`
	// Why is what was lost, in words.
	Why string `json:"why"`
}

// continueText is what an agent is told whose turn was cut off.
const continueText = "Continue from where you left off. The machine that you worked on was lost in the middle of this turn; " +
	"what was running then has ended, and files may be as they were at the end of the turn before."

// Prompt returns what the agent is asked now, under an id of its own: the first
// prompt was written to a process that has exited.
func (r *Resume) Prompt(m Message) Message {
	if r == nil || !r.PromptPersisted {
		return m
	}
	return Message{ID: resumeID(m.ID, r.Times), Text: continueText}
}

func resumeID(messageID string, times int) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%s resumed %d", messageID, times)).String()
}

// PromptIDs are the ids that the blocks of a message may have, which the agent may
// have been asked again: more than an execution can have, which loses MaxResumes hosts
// and on each MaxResumes runners at most. blockID returns the id of the block
// that the agent makes of a prompt.
func PromptIDs(messageID string, blockID func(string) string) []string {
	ids := []string{messageID, blockID(messageID)} // the server's block of it, and the agent's
	for times := 1; times <= MaxResumes*(MaxResumes+1); times++ {
		ids = append(ids, blockID(resumeID(messageID, times)))
	}
	return ids
}

// Decide sets PromptPersisted and returns the events that tell subscribers what
// was lost, and that the turn continues. persisted is what the transcripts have.
func (r *Resume) Decide(m Message, executionID string, h *History, persisted reducer.State, at time.Time) []event.Event {
	o := m.options(at)
	message, streamed := h.Asked()
	r.PromptPersisted = hasPrompt(m.BlockIDs, persisted) || streamed && hasPrompt([]string{message.ID}, persisted)
	if streamed && !r.PromptPersisted {
		// Asked again, the agent creates the message again, some of them under an id
		// of their own choice.
		o.AskedAgain = message.ID
	}
	changed := loss.Difference(h.Streamed(), persisted, o)
	return append(changed, r.notice(executionID, len(changed), at))
}

func (r *Resume) notice(executionID string, changed int, at time.Time) event.Event {
	text := r.Why + "; "
	if r.PromptPersisted {
		text += "the agent has the message in its transcript and was told to go on"
	} else {
		text += "the agent had not written the message down and was asked again"
	}
	if changed > 0 {
		text += fmt.Sprintf("; %d blocks were lost or stand otherwise in the transcript", changed)
	}
	return event.FromServer(event.SystemBlock(fmt.Sprintf("sojourn-%s-resumed-%d", executionID, r.Times), "resumed", text), at)
}
