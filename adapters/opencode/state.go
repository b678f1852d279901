package opencode

import (
	"slices"

	"github.com/sojourn-run/sojourn/event"
)

// state is all that a translator remembers, and its JSON is what is carried
// from turn to turn. It holds what is open and a little of what came last, so
// its size does not grow with the conversation.
type state struct {
	// Version distinguishes a state of another layout.
	Version int `json:"v"`
	// Main is the native session whose conversation is the main one.
	Main string `json:"main,omitempty"`
	// Threads are the native sessions seen that may still speak.
	Threads map[string]*thread `json:"threads,omitempty"`
	// Gone are the subagents' sessions that are done, oldest first.
	Gone []string `json:"gone,omitempty"`
	// Tools are the calls that have no result yet, by their part.
	Tools map[string]*tool `json:"tools,omitempty"`
	// Open are the texts that are being written, by their part.
	Open map[string]*open `json:"open,omitempty"`
	// Asks are the permission requests and questions not yet answered.
	Asks map[string]*ask `json:"asks,omitempty"`
	Turn turn            `json:"turn"`
	// Headless is what the headless mode has said of a step that is not over.
	Headless headless `json:"headless"`
	// Held is a prompt from the command line that may yet come again, and
	// Prompts counts those that came without an id.
	Held    *string `json:"held,omitempty"`
	Prompts int     `json:"prompts,omitempty"`
	// Resyncs counts how often the stream of events stood again.
	Resyncs int    `json:"resyncs,omitempty"`
	Model   string `json:"model,omitempty"`
	// Opening is how far the opening of this process is.
	Opening opening `json:"opening"`
}

const stateVersion = 1

// thread is one native session.
type thread struct {
	// Conversation is main, or the id of the call that started the subagent.
	Conversation string `json:"conv"`
	Parent       string `json:"parent,omitempty"`
	// Messages are the latest, oldest first.
	Messages []message `json:"messages,omitempty"`
	// User is the prompt that arrives, part by part.
	User *prompt `json:"user,omitempty"`
	// Steps are the latest step-finish parts, whose usage was emitted.
	Steps []string `json:"steps,omitempty"`
}

// message is what its parts need of it.
type message struct {
	ID      string `json:"id"`
	Role    string `json:"role"`
	Parent  string `json:"parent,omitempty"`
	Model   string `json:"model,omitempty"`
	Summary bool   `json:"summary,omitempty"`
	// Done: nothing more comes of it.
	Done bool `json:"done,omitempty"`
	// Aborted: it was stopped.
	Aborted bool `json:"aborted,omitempty"`
	// Failed: its error is in the conversation.
	Failed bool `json:"failed,omitempty"`
}

// kept bounds what a thread remembers of what is done.
const kept = 16

// find returns the message of that id, nil if it is not known (any more).
func (t *thread) find(id string) *message {
	for i := len(t.Messages) - 1; i >= 0; i-- {
		if t.Messages[i].ID == id {
			return &t.Messages[i]
		}
	}
	return nil
}

// learn notes a message; first says that it was not known.
func (t *thread) learn(i *info) (m *message, first bool) {
	if m = t.find(i.ID); m == nil {
		if len(t.Messages) >= kept {
			t.Messages = slices.Delete(t.Messages, 0, 1)
		}
		t.Messages = append(t.Messages, message{ID: i.ID, Role: i.Role, Parent: i.ParentID, Summary: i.isSummary()})
		m, first = &t.Messages[len(t.Messages)-1], true
	}
	if i.Role == "assistant" {
		m.Model = i.model()
		m.Done = m.Done || i.Time.Completed != 0 || i.Error != nil
	}
	return m, first
}

// busy reports whether an answer is being written.
func (t *thread) busy() bool {
	return slices.ContainsFunc(t.Messages, func(m message) bool { return m.Role == "assistant" && !m.Done })
}

// counted reports whether a step's usage was emitted, and notes that it is.
func (t *thread) counted(partID string) bool {
	if slices.Contains(t.Steps, partID) {
		return true
	}
	if len(t.Steps) >= kept {
		t.Steps = slices.Delete(t.Steps, 0, 1)
	}
	t.Steps = append(t.Steps, partID)
	return false
}

// prompt is a user's message whose parts come one by one.
type prompt struct {
	MessageID string       `json:"message"`
	Block     string       `json:"block"`
	Text      string       `json:"text"`
	Rich      bool         `json:"rich,omitempty"`
	Parts     []event.Part `json:"parts,omitempty"`
	Seen      []string     `json:"seen,omitempty"`
}

// tool is a call without result.
type tool struct {
	Session string `json:"session"`
	CallID  string `json:"call"`
	Name    string `json:"name"`
	// Begun: its input is known, and a subagent was announced.
	Begun bool `json:"begun,omitempty"`
	// Child is the native session of a subagent.
	Child string `json:"child,omitempty"`
	// Input distinguishes the input that was emitted from another.
	Input uint64 `json:"input,omitempty"`
}

// open is a text that is being written.
type open struct {
	Session string          `json:"session"`
	Type    event.BlockType `json:"type"`
	// Said: something of it has come.
	Said bool `json:"said,omitempty"`
}

// ask is a request that waits for an answer.
type ask struct {
	Conversation string `json:"conv"`
	Question     bool   `json:"question,omitempty"`
	// Questions is how many a question asks.
	Questions int `json:"questions,omitempty"`
	// Message is the host's, which the agent does not repeat; Denied says that
	// an answer was a refusal.
	Message string `json:"message,omitempty"`
	Denied  bool   `json:"denied,omitempty"`
}

// turn is how far the exchange with the agent is.
type turn struct {
	// Active: something was asked that is not answered.
	Active bool `json:"active,omitempty"`
	// Waiting are prompts that the agent has not written down yet.
	Waiting []handed `json:"waiting,omitempty"`
	// Running: the agent works on a prompt of this turn.
	Running bool `json:"running,omitempty"`
	// Interrupted: we asked for the end of this turn.
	Interrupted bool `json:"interrupted,omitempty"`
	// Early: we asked before the agent was at work, so that it did not hear.
	Early bool `json:"early,omitempty"`
	// Failure is what the model's API said last when we ended a turn whose
	// retries have no end.
	Failure    string           `json:"failure,omitempty"`
	StopReason string           `json:"stop,omitempty"`
	Error      *event.ErrorInfo `json:"error,omitempty"`
}

// handed is a prompt that was sent.
type handed struct {
	// Request is the id of the request, and Part that of its first part if we
	// chose one.
	Request string `json:"request,omitempty"`
	Part    string `json:"part,omitempty"`
	// Late: it found the agent at work.
	Late bool `json:"late,omitempty"`
}

// opening is how far a process is from taking prompts.
type opening struct {
	// Request is that which opens the session.
	Request string `json:"request,omitempty"`
	Done    bool   `json:"done,omitempty"`
	// Refused is why the session can't be opened.
	Refused string `json:"refused,omitempty"`
}

func newState() *state {
	return &state{
		Version: stateVersion,
		Threads: map[string]*thread{},
		Tools:   map[string]*tool{},
		Open:    map[string]*open{},
		Asks:    map[string]*ask{},
	}
}

// thread returns the native session, which becomes known by it. The first that
// has no parent is the main one.
func (s *state) thread(session string) *thread {
	t := s.Threads[session]
	if t != nil {
		return t
	}
	t = &thread{Conversation: session}
	if s.Main == "" {
		s.Main = session
	}
	if s.Main == session {
		t.Conversation = event.Main
	}
	s.Threads[session] = t
	return t
}
