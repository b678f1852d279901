package turn

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/sojourn-run/sojourn/effects"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/reducer/loss"
)

// MaxResumes bounds how often an execution is resumed on one host: the execution may be
// what kills the runner. The workflow bounds the hosts by the same number.
const MaxResumes = 3

// MaxParks bounds how often an execution is parked: after that it waits for a person with
// its agent.
const MaxParks = 50

// Resume is how an execution continues after its runner or host was lost, or given up to
// wait for a person, decided once: an agent with the message in its transcript is prompted
// to continue, any other gets the message again.
type Resume struct {
	// Times counts the losses of this execution, from 1; Parks counts those of them that
	// were parkings.
	Times int `json:"times"`
	Parks int `json:"parks,omitempty"`
	// Decisions are a person's, on what the agent had requested when it was parked. The
	// agent gets them as text, and each answers the same call once.
	Decisions []permission.Decision `json:"decisions,omitempty"`
	// PromptPersisted reports whether the message is in the agent's transcript.
	PromptPersisted bool `json:"promptPersisted"`
	// Why describes what was lost.
	Why string `json:"why"`
	// Unknown are the calls whose effect is unknown and that no prompt has named yet, and
	// Then is the verdict of the rules on them, decided at At.
	Unknown []effects.Call    `json:"unknown,omitempty"`
	Then    permission.OnLoss `json:"then,omitempty"`
	At      time.Time         `json:"at,omitzero"`
}

// ContinueText is the prompt for an agent whose turn was cut off.
const ContinueText = "Continue from where you left off. The machine that you worked on was lost in the middle of this turn; " +
	"what was running then, subagents too, has ended and is not to be waited for, and files may be as they were at the end of the turn before."

// Prompt returns what the agent is sent now, under a new id: the first prompt was written
// to a process that has exited.
func (r *Resume) Prompt(m Message) Message {
	if r == nil {
		return m
	}
	if r.PromptPersisted {
		text := ContinueText
		if own := effects.OfAgent(r.Decisions); len(own) > 0 {
			text = permission.Words(own)
		}
		m = Message{ID: resumeID(m.ID, r.Times), Text: text}
	}
	if told := effects.Tell(r.Unknown); told != "" {
		m.Text += "\n\n" + told
	}
	return m
}

func resumeID(messageID string, times int) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%s resumed %d", messageID, times)).String()
}

// PromptIDs returns the ids that the blocks of a message may have, which the agent may have
// been sent again: more than an execution can have, which is parked MaxParks times at most,
// and loses at most MaxResumes hosts and on each MaxResumes runners. The first two are those
// of the message itself. blockID returns the id of the agent's block of a prompt.
func PromptIDs(messageID string, blockID func(string) string) []string {
	ids := []string{messageID, blockID(messageID)} // the server's block of it, and the agent's
	for times := 1; times <= MaxResumes*(MaxResumes+1)+MaxParks; times++ {
		ids = append(ids, blockID(resumeID(messageID, times)))
	}
	return ids
}

// Decide sets how the execution continues and returns the events about what was lost, and
// about the verdict of the rules. persisted is what the transcripts have.
func (r *Resume) Decide(m Message, executionID string, h *History, persisted reducer.State, rules permission.EffectRules, at time.Time) []event.Event {
	if h.streamed.Has(event.Main, r.noticeID(executionID)) {
		r.Decisions = nil // sent before another loss: nothing is allowed twice
	}
	o := m.options(persisted, at)
	message, streamed := h.Asked()
	r.PromptPersisted = loss.HasPrompt(m.BlockIDs, persisted) || streamed && loss.HasPrompt([]string{message.ID}, persisted)
	if streamed && !r.PromptPersisted {
		// When it is sent again, the agent creates the message's block again, some under an
		// id of their own choice.
		o.AskedAgain = append(o.AskedAgain, message.ID)
	}
	changed := h.Difference(persisted, o)
	unknown, marks := h.unanswered(m, persisted, at)
	unknown = effects.Untold(unknown, persisted)
	r.Then, r.Unknown, r.At = effects.Judge(unknown, rules, r.Decisions), effects.Shorten(unknown), at
	return append(append(changed, marks...), r.notice(executionID, len(changed), at))
}

func (r *Resume) notice(executionID string, changed int, at time.Time) event.Event {
	text := r.Why + "; "
	switch {
	case r.Then == permission.LossFail:
		text += "the turn ends, as the effect of calls is unknown and " + effects.WhyFails(r.Decisions)
	case r.Then == permission.LossAsk:
		text += "a person is asked whether the turn continues, by a rule for calls whose effect is unknown"
	case r.PromptPersisted:
		text += "the agent has the message in its transcript and was told to go on"
	default:
		text += "the agent had not written the message down and was asked again"
	}
	if len(r.Unknown) > 0 {
		text += fmt.Sprintf("; calls whose effect is unknown: %d", len(r.Unknown))
	}
	if changed > 0 {
		text += fmt.Sprintf("; %d blocks were lost or stand otherwise in the transcript", changed)
	}
	if len(r.Decisions) > 0 {
		text += "; " + permission.Summary(r.Decisions)
	}
	return event.FromServer(event.SystemBlock(r.noticeID(executionID), "resumed", text), at)
}

// noticeID returns the id of the notice, which for decisions depends on their parking:
// where the notice exists, the agent may have got the decisions.
func (r *Resume) noticeID(executionID string) string {
	if len(r.Decisions) > 0 {
		return fmt.Sprintf("sojourn-%s-answered-%d", executionID, r.Parks)
	}
	return fmt.Sprintf("sojourn-%s-resumed-%d", executionID, r.Times)
}
