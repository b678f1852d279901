package codex

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/sojourn-run/sojourn/event"
)

// state is everything that a translator remembers; its JSON is carried from turn
// to turn. It has what is open and nothing that is finished, so its size does not
// grow with the conversation.
type state struct {
	// Version distinguishes a state of another layout.
	Version int `json:"v"`
	// Process counts the processes that were opened: the program numbers its
	// requests anew in each.
	Process int     `json:"process,omitempty"`
	Opening opening `json:"opening,omitzero"`
	// Main is the id of the main thread.
	Main    string             `json:"main,omitempty"`
	Threads map[string]*thread `json:"threads,omitempty"`
	// Holding: of some thread notifications are held back.
	Holding bool `json:"holding,omitempty"`
	// Calls are the requests to the program that wait for a response.
	Calls map[string]call `json:"calls,omitempty"`
	// Asks are the program's requests that wait for an answer, by the id that the
	// host uses.
	Asks map[string]ask `json:"asks,omitempty"`
	// Handed are prompts on their way: shown or not, the program has not
	// repeated them yet.
	Handed []handed `json:"handed,omitempty"`
	Turn   turn     `json:"turn,omitzero"`
	// Clock is the latest time that the program reported, in Unix milliseconds.
	Clock int64 `json:"clock,omitempty"`
	// Prompts counts the prompts without an id.
	Prompts int    `json:"prompts,omitempty"`
	Model   string `json:"model,omitempty"`
	// Tokens is what the threads of a stream without threads have used so far.
	Tokens usage `json:"tokens,omitzero"`
}

const stateVersion = 1

// opening is the state of the opening of a new process.
type opening struct {
	Phase phase `json:"phase,omitempty"`
	// Initialize and Thread are the ids of the two requests of the opening.
	Initialize string `json:"initialize,omitempty"`
	Thread     string `json:"thread,omitempty"`
	// Refused is the program's error about a session that it doesn't open.
	Refused string `json:"refused,omitempty"`
}

type phase string

const (
	closed  phase = ""
	hailing phase = "hailing"
	opened  phase = "opening"
	ready   phase = "ready"
	refused phase = "refused"
)

// turn is the state of the current prompt.
type turn struct {
	// Busy: a prompt was sent, and idle was not emitted yet.
	Busy bool     `json:"busy,omitempty"`
	End  *turnEnd `json:"end,omitempty"`
	// Ended are the ids of the main thread's turns that have ended since the session was
	// idle last: the response to a steered message may come behind its turn's end.
	Ended []string `json:"ended,omitempty"`
}

// turnEnd is how the main thread's last turn ended.
type turnEnd struct {
	Interrupted bool   `json:"interrupted,omitempty"`
	Message     string `json:"message,omitempty"`
	Code        string `json:"code,omitempty"`
}

// handed is a prompt that was sent to the program.
type handed struct {
	ID string `json:"id"`
	// Turn is the turn that was running then; "" for none.
	Turn string `json:"turn,omitempty"`
	// Shown: it is in the conversation.
	Shown bool `json:"shown,omitempty"`
	// Block is what is shown of a prompt that the program has not taken.
	Block *event.Block `json:"block,omitempty"`
}

// call is a request of the host.
type call struct {
	Method string `json:"method"`
	Prompt string `json:"prompt,omitempty"`
	Model  string `json:"model,omitempty"`
	// Steered: the prompt was for the turn that ran.
	Steered bool `json:"steered,omitempty"`
}

// ask is a request of the program.
type ask struct {
	// Raw is the program's id for it, as JSON.
	Raw          json.RawMessage `json:"raw"`
	Conversation string          `json:"conv"`
	Thread       string          `json:"thread"`
	Method       string          `json:"method"`
}

// thread is one thread of the program: main, or a subagent's.
type thread struct {
	// Conversation is that of its items; "" until it is known.
	Conversation string `json:"conv,omitempty"`
	// Parent is the conversation that started it.
	Parent string `json:"parent,omitempty"`
	// Held are the notifications about it since, in order, while its conversation is not
	// known.
	Held []json.RawMessage `json:"held,omitempty"`
	// Calling: what a model call makes has come, and its usage has not.
	Calling bool `json:"calling,omitempty"`
	// First is the first block that the model call has made: the one with its usage.
	First     string          `json:"first,omitempty"`
	FirstType event.BlockType `json:"firstType,omitempty"`
	// Turn is the turn that runs. Starting: the program has accepted it and not begun it
	// yet, and would refuse to interrupt it.
	Turn     string `json:"turn,omitempty"`
	Starting bool   `json:"starting,omitempty"`
	// Interrupt: the host requested the end of that turn.
	Interrupt bool `json:"interrupt,omitempty"`
	// Began is when the turn's prompt was taken, and Quiet when the last item was
	// finished: the program's figures, in Unix milliseconds.
	Began int64 `json:"began,omitempty"`
	Quiet int64 `json:"quiet,omitempty"`
	// Latest is the latest time of a block of the turn, by the program in Unix
	// milliseconds, and LatestItem the item that it is of, while that one's is the last block.
	Latest     int64  `json:"latest,omitempty"`
	LatestItem string `json:"latestItem,omitempty"`
	// Open are the items that have started and not ended, in order.
	Open []open `json:"open,omitempty"`
	// Refused are refused calls behind which the turn has not continued yet.
	Refused []string `json:"refused,omitempty"`
	// Last is the last text of the turn that runs.
	Last string `json:"last,omitempty"`
	// Tokens is the total of the last report.
	Tokens int64 `json:"tokens,omitempty"`
	// Done: its end was emitted. Reported: another thread was informed that it ended
	// well.
	Done     bool `json:"done,omitempty"`
	Reported bool `json:"reported,omitempty"`
}

// open is an item between its start and its end.
type open struct {
	ID   string   `json:"id"`
	Kind itemKind `json:"kind"`
	// Prompt is that of a subagent about to be started.
	Prompt string `json:"prompt,omitempty"`
	// Report: the item reports what has happened already.
	Report bool `json:"report,omitempty"`
	// Tool and Input are those of a call that the program may ask about.
	Tool  string          `json:"tool,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

func newState() *state {
	return &state{
		Version: stateVersion,
		Threads: map[string]*thread{},
		Calls:   map[string]call{},
		Asks:    map[string]ask{},
	}
}

// thread returns the thread with that id, which may be new.
func (s *state) thread(id string) *thread {
	t := s.Threads[id]
	if t == nil {
		t = &thread{}
		s.Threads[id] = t
	}
	return t
}

// threads returns the ids of the threads, in order.
func (s *state) threads() []string { return slices.Sorted(maps.Keys(s.Threads)) }

func (t *thread) find(id string) int {
	return slices.IndexFunc(t.Open, func(o open) bool { return o.ID == id })
}

// drop removes an open item and reports whether it was one.
func (t *thread) drop(id string) (open, bool) {
	at := t.find(id)
	if at < 0 {
		return open{}, false
	}
	o := t.Open[at]
	t.Open = slices.Delete(t.Open, at, at+1)
	return o, true
}
