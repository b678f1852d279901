package acp

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
)

// phase is the phase of the opening of the process.
type phase string

const (
	closed      phase = ""
	initialize  phase = "initialize"  // sent, not answered
	initialized phase = "initialized" // answered; a session is due
	opening     phase = "opening"     // a session is requested
	reopen      phase = "reopen"      // the old session is lost; a new one is due
	again       phase = "again"       // the new session can't be used; another is due
	settling    phase = "settling"    // loaded; history may still arrive
	ready       phase = "ready"
	refused     phase = "refused"
)

// state is everything that a translator remembers: what is open, and nothing that
// is finished.
type state struct {
	Version int   `json:"v"`
	Phase   phase `json:"phase,omitempty"`
	// Process is the id of the process's first message.
	Process string `json:"process,omitempty"`
	// Refusal is why there is no session.
	Refusal string `json:"refusal,omitempty"`
	Session string `json:"session,omitempty"`
	// Unusable is the request for the session that can't be used.
	Unusable string `json:"unusable,omitempty"`
	// Sent are requests without an answer, by id.
	Sent map[string]sent `json:"sent,omitempty"`
	// Unserved are requests of the agent that are not served here, by id.
	Unserved map[string]json.RawMessage `json:"unserved,omitempty"`
	// Settle counts the requests that wait for the history's end; Replayed is whether
	// any of it arrived since the last one.
	Settle   int    `json:"settle,omitempty"`
	Replayed bool   `json:"replayed,omitempty"`
	Replay   replay `json:"replay"`

	// Prompts counts the prompts of the session, Commands those that the agent itself
	// answers.
	Prompts  int `json:"prompts,omitempty"`
	Commands int `json:"commands,omitempty"`
	// Known are the names of the agent's commands.
	Known []string `json:"known,omitempty"`
	// Turns are the prompts without an answer; the first one runs.
	Turns []turn `json:"turns,omitempty"`
	Run   run    `json:"run"`
	// Tools are the calls without a result, by id.
	Tools map[string]*call `json:"tools,omitempty"`
	Asks  map[string]ask   `json:"asks,omitempty"`
	Model string           `json:"model,omitempty"`
	// Mode is the one in which the session was opened, ModelOption the id of the
	// setting that is its model, Asked the model last requested from this process.
	Mode        string `json:"mode,omitempty"`
	ModelOption string `json:"modelOption,omitempty"`
	Asked       string `json:"asked,omitempty"`
	// Can is what the agent reported about itself.
	Can *abilities `json:"can,omitempty"`
	// Resumed: the session is older than this translation; Proven: a prompt was
	// answered in it. Cost is its cost so far.
	Resumed bool     `json:"resumed,omitempty"`
	Proven  bool     `json:"proven,omitempty"`
	Cost    *float64 `json:"cost,omitempty"`
	// Doubt is a prompt that the last process may not have read.
	Doubt *string `json:"doubt,omitempty"`
}

const stateVersion = 1

// sent is a request of the host without an answer.
type sent struct {
	Method string `json:"m"`
	Arg    string `json:"a,omitempty"`
	// At is when a new session was asked for.
	At time.Time `json:"at,omitzero"`
}

// replay is what was replayed of the history.
type replay struct {
	Prompts int `json:"prompts,omitempty"`
	// Last is the last prompt if nothing followed it.
	Last string `json:"last,omitempty"`
	// Base: the prompts of this session were not counted from its beginning.
	Base bool `json:"base,omitempty"`
}

// turn is a prompt without an answer.
type turn struct {
	Request string    `json:"req"`
	Content []Content `json:"content,omitempty"` // until it is shown
	Text    string    `json:"text,omitempty"`
	ID      string    `json:"id,omitempty"`
	// Runs counts the finished runs of text and thoughts.
	Runs int `json:"runs,omitempty"`
	// Command: the agent itself answers it and stores nothing.
	Command   bool `json:"command,omitempty"`
	Cancelled bool `json:"cancelled,omitempty"`
	// Heard: the agent has reacted to it.
	Heard bool `json:"heard,omitempty"`
	// Refused are calls whose refusal the agent has not stored yet.
	Refused []string `json:"refused,omitempty"`
}

// run is the agent's output between two calls.
type run struct {
	Message string `json:"msg,omitempty"`
	Text    bool   `json:"text,omitempty"`
	Thought bool   `json:"thought,omitempty"`
	// Summary are the headings of its thoughts.
	Summary string `json:"summary,omitempty"`
	// Held is text that was not emitted yet.
	Held string `json:"held,omitempty"`
}

// call is a tool call without a result.
type call struct {
	Tool    Tool  `json:"tool"`
	Since   int64 `json:"since,omitempty"`
	Spawned bool  `json:"spawned,omitempty"`
	Refused bool  `json:"refused,omitempty"`
	// Told is everything that was reported of it, for agents that report it in
	// pieces.
	Told ToolCall `json:"told"`
}

// ask is a permission request without an answer.
type ask struct {
	ID     json.RawMessage `json:"id"`
	CallID string          `json:"call"`
	Allow  string          `json:"allow,omitempty"`
	Reject string          `json:"reject,omitempty"`
}

// Translator is one side of the conversation with an agent that speaks the
// protocol; see adapters.Translator. Not safe for concurrent use.
type Translator struct {
	emit.Emitter
	state
	dialect *Dialect
	launch  adapters.Launch
	given   map[string]bool // due messages returned
}

var _ adapters.Translator = (*Translator)(nil)

// New returns a translator that continues from a state that an earlier one
// returned; nil for the beginning.
func New(d *Dialect, l adapters.Launch, raw json.RawMessage) (*Translator, error) {
	st := state{Version: stateVersion}
	if err := emit.LoadState(d.Agent, raw, &st, &st.Version, stateVersion); err != nil {
		return nil, err
	}
	t := &Translator{Emitter: emit.Emitter{Agent: d.Agent}, state: st, dialect: d, launch: l, given: map[string]bool{}}
	t.fill()
	return t, nil
}

// fill makes the maps that the JSON form leaves out.
func (s *state) fill() {
	if s.Sent == nil {
		s.Sent = map[string]sent{}
	}
	if s.Unserved == nil {
		s.Unserved = map[string]json.RawMessage{}
	}
	if s.Tools == nil {
		s.Tools = map[string]*call{}
	}
	if s.Asks == nil {
		s.Asks = map[string]ask{}
	}
}

// State returns what the next translator needs to continue.
func (t *Translator) State() (json.RawMessage, error) { return nativejson.Marshal(&t.state) }

// Session returns the native session of the conversation; "" before it is known.
func (t *Translator) Session() string { return t.state.Session }

// TurnID returns the id of the n-th prompt of a session, counted from 1.
func TurnID(session string, n int) string { return session + ":" + strconv.Itoa(n) }

// TextID returns the id of a text in run r of a turn, counted from 0.
func TextID(turn string, r int) string { return turn + ":text:" + strconv.Itoa(r) }

// ThoughtID returns the id of the thoughts in run r of a turn.
func ThoughtID(turn string, r int) string { return turn + ":thought:" + strconv.Itoa(r) }

// ResultID returns the id of a call's result.
func ResultID(call string) string { return call + ":result" }
