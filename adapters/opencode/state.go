package opencode

import (
	"slices"

	"github.com/sojourn-run/sojourn/event"
)

// state is everything that a translator remembers; its JSON is carried from turn
// to turn. It has what is open and a little of the latest, so its size does not
// grow with the conversation.
type state struct {
	// Version distinguishes a state of another layout.
	Version int `json:"v"`
	// Main is the native session whose conversation is the main one.
	Main string `json:"main,omitempty"`
	// Threads are the native sessions that may still have events.
	Threads map[string]*thread `json:"threads,omitempty"`
	// Gone are the finished subagents' sessions, oldest first.
	Gone []string `json:"gone,omitempty"`
	// Tools are the calls that have no result yet, by their part.
	Tools map[string]*tool `json:"tools,omitempty"`
	// Open are the unfinished texts, by their part.
	Open map[string]*open `json:"open,omitempty"`
	// Asks are the permission requests and questions not yet answered.
	Asks map[string]*ask `json:"asks,omitempty"`
	Turn turn            `json:"turn"`
	// Headless is what the headless mode has of an unfinished step.
	Headless headless `json:"headless"`
	// Held is a prompt from the command line that may yet be repeated, and Prompts
	// counts the prompts without an id.
	Held    *string `json:"held,omitempty"`
	Prompts int     `json:"prompts,omitempty"`
	// Resyncs counts how often the stream of events was open again.
	Resyncs int    `json:"resyncs,omitempty"`
	Model   string `json:"model,omitempty"`
	// Opening is the state of the opening of this process.
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
	// User is the prompt that is arriving, part by part.
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
	// Done: nothing more follows.
	Done bool `json:"done,omitempty"`
	// Aborted: it was stopped.
	Aborted bool `json:"aborted,omitempty"`
	// Failed: its error is in the conversation.
	Failed bool `json:"failed,omitempty"`
	// Finish is the reason of its last step, and Called reports whether it called a tool.
	Finish string `json:"finish,omitempty"`
	Called bool   `json:"called,omitempty"`
	// First is the first block of it, which has its usage, and Usage that so far.
	First     string          `json:"first,omitempty"`
	FirstType event.BlockType `json:"firstType,omitempty"`
	Usage     event.Usage     `json:"usage,omitzero"`
}

// kept bounds what a thread remembers of finished things.
const kept = 16

// find returns the message with that id, nil if it is not known (any more).
func (t *thread) find(id string) *message {
	for i := len(t.Messages) - 1; i >= 0; i-- {
		if t.Messages[i].ID == id {
			return &t.Messages[i]
		}
	}
	return nil
}

// learn records a message; first reports whether it was new.
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
		m.Finish = i.Finish
	}
	return m, first
}

// lastFailed reports whether the answer before the latest message failed.
func (t *thread) lastFailed() bool {
	for _, m := range slices.Backward(t.Messages[:len(t.Messages)-1]) {
		if m.Role == "assistant" {
			return m.Failed
		}
	}
	return false
}

// answered reports whether the last message is an answer behind which the server asks the
// model for no other. One that was aborted has an error, or no finish.
func (t *thread) answered() bool {
	n := len(t.Messages)
	if n == 0 {
		return false
	}
	m := t.Messages[n-1]
	return m.Role == "assistant" && m.Done && !m.Failed && !m.Summary && !m.Called && !slices.Contains(unfinished, m.Finish)
}

// unfinished are the reasons after which the server continues a turn by itself.
var unfinished = []string{"", "tool-calls", "unknown"}

// busy reports whether an answer is in progress.
func (t *thread) busy() bool {
	return slices.ContainsFunc(t.Messages, func(m message) bool { return m.Role == "assistant" && !m.Done })
}

// close ends the answers that are in progress: no end of them will come.
func (t *thread) close() {
	for i := range t.Messages {
		t.Messages[i].Done = true
	}
}

// counted reports whether a step's usage was emitted, and records that it is.
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

// prompt is a user's message whose parts arrive one by one.
type prompt struct {
	MessageID string       `json:"message"`
	Block     string       `json:"block"`
	Text      string       `json:"text"`
	Rich      bool         `json:"rich,omitempty"`
	Parts     []event.Part `json:"parts,omitempty"`
	Seen      []string     `json:"seen,omitempty"`
}

// tool is a call without a result.
type tool struct {
	Session string `json:"session"`
	CallID  string `json:"call"`
	Name    string `json:"name"`
	// Begun: its input is known, and a subagent was announced.
	Begun bool `json:"begun,omitempty"`
	// Child is the native session of a subagent.
	Child string `json:"child,omitempty"`
	// Input is a hash of the emitted input, to detect another one.
	Input uint64 `json:"input,omitempty"`
}

// open is an unfinished text.
type open struct {
	Session string          `json:"session"`
	Type    event.BlockType `json:"type"`
	// Said: a part of it has arrived.
	Said bool `json:"said,omitempty"`
}

// ask is a request that waits for an answer.
type ask struct {
	Conversation string `json:"conv"`
	Question     bool   `json:"question,omitempty"`
	// Questions is how many a question asks.
	Questions int `json:"questions,omitempty"`
	// Message is the host's, which the agent does not repeat; Denied means that an
	// answer was a refusal.
	Message string `json:"message,omitempty"`
	Denied  bool   `json:"denied,omitempty"`
	// Answered: the host has sent an answer.
	Answered bool `json:"answered,omitempty"`
}

// turn is the state of the exchange with the agent.
type turn struct {
	// Active: a prompt was sent that is not answered.
	Active bool `json:"active,omitempty"`
	// Waiting are prompts that the agent has not stored yet.
	Waiting []handed `json:"waiting,omitempty"`
	// Running: the agent works on a prompt of this turn.
	Running bool `json:"running,omitempty"`
	// Rested: the server reported that it was idle, and had a prompt to store then.
	Rested bool `json:"rested,omitempty"`
	// Interrupted: the host requested the end of this turn.
	Interrupted bool `json:"interrupted,omitempty"`
	// Early: the request came before the agent was working, so that it had no effect.
	// Repeated: it was made again.
	Early    bool `json:"early,omitempty"`
	Repeated bool `json:"repeated,omitempty"`
	// Failure is the last error of the model's API when the adapter ended a turn
	// whose retries don't end.
	Failure    string           `json:"failure,omitempty"`
	StopReason string           `json:"stop,omitempty"`
	Error      *event.ErrorInfo `json:"error,omitempty"`
	// Idle: after that error the server reported that it was idle, and an answer had no
	// end.
	Idle bool `json:"idle,omitempty"`
}

// handed is a prompt that was sent.
type handed struct {
	// Request is the id of the request, and Part that of its first part if the
	// adapter chose one.
	Request string `json:"request,omitempty"`
	Part    string `json:"part,omitempty"`
	// Late: it found the agent working.
	Late bool `json:"late,omitempty"`
	// Doubted: the server reported a failure since, which may be that of storing it.
	Doubted bool `json:"doubted,omitempty"`
}

// opening is the state of a process before it takes prompts.
type opening struct {
	// Request is the one that opens the session.
	Request string `json:"request,omitempty"`
	Done    bool   `json:"done,omitempty"`
	// Asks: the process was started with settings by which it asks.
	Asks bool `json:"asks,omitempty"`
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

// thread returns the native session, and adds it if it is new. The first that has
// no parent is the main one.
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
