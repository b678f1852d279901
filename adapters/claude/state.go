package claude

import (
	"encoding/json"
	"slices"

	"github.com/sojourn-run/sojourn/event"
)

// state is everything that a translator remembers; its JSON is carried from turn
// to turn. It has what is open and nothing that is finished, so its size does not
// grow with the conversation.
type state struct {
	// Version distinguishes a state of another layout.
	Version int                `json:"v"`
	Threads map[string]*thread `json:"threads,omitempty"`
	// Tools are the calls that have no result yet, by id.
	Tools map[string]tool `json:"tools,omitempty"`
	// Agents are the native subagents that run, by the id of their tool use.
	Agents map[string]*agent `json:"agents,omitempty"`
	// Early are subagents seen before the tool use that starts them.
	Early map[string]string `json:"early,omitempty"`
	// Side are the conversations of sidechains' lines, by the lines' uuids, while
	// their subagents run.
	Side map[string]string `json:"side,omitempty"`
	// Asks are the permission requests not yet answered: request → conversation.
	Asks map[string]string `json:"asks,omitempty"`
	// Models are set_model requests not yet answered: request → model.
	Models  map[string]string `json:"models,omitempty"`
	Aliases map[string]string `json:"aliases,omitempty"`

	Turn turn `json:"turn"`
	// Preserved are lines that a compaction keeps: the stream repeats some of them.
	Preserved []string `json:"preserved,omitempty"`
	// Prompts counts the prompts without an id.
	Prompts int     `json:"prompts,omitempty"`
	Cost    float64 `json:"cost,omitempty"`
	Model   string  `json:"model,omitempty"`
	// States: this stream reports when it is idle.
	States bool `json:"states,omitempty"`
	// Replays: this stream repeats the prompts that it takes.
	Replays bool `json:"replays,omitempty"`
}

const stateVersion = 1

// thread is one conversation: main, or a subagent's.
type thread struct {
	// Messages count the blocks of the latest messages.
	Messages []counter `json:"messages,omitempty"`
	// Open are the blocks whose text is being streamed.
	Open    []open `json:"open,omitempty"`
	Message string `json:"message,omitempty"`
	Model   string `json:"model,omitempty"`
	// Usage is what the message's start said of it.
	Usage event.Usage `json:"usage,omitzero"`
	// First is the first block of the latest message that has one.
	First firstBlock `json:"first,omitzero"`
	// Skill is a skill whose text comes next.
	Skill string `json:"skill,omitempty"`
	// Compacted: the summary is the next message.
	Compacted bool `json:"compacted,omitempty"`
	// Command is a local command whose output is the next message.
	Command *prompt `json:"command,omitempty"`
	// LastText is the last text of a subagent, which is its output if its caller does
	// not wait for it.
	LastText string `json:"lastText,omitempty"`
}

// firstBlock is the block of a message that has its usage.
type firstBlock struct {
	Message string          `json:"message"`
	ID      string          `json:"id"`
	Type    event.BlockType `json:"type"`
}

type counter struct {
	ID string `json:"id"`
	N  int    `json:"n"`
}

// keptMessages bounds the counters of a thread: blocks of one message are
// interleaved with results of its tools, but not with blocks of old messages.
const keptMessages = 8

// next returns the position of the next block of a message, counted from 0.
func (t *thread) next(messageID string) int {
	for i := range t.Messages {
		if t.Messages[i].ID == messageID {
			t.Messages[i].N++
			return t.Messages[i].N - 1
		}
	}
	if len(t.Messages) == keptMessages {
		t.Messages = slices.Delete(t.Messages, 0, 1)
	}
	t.Messages = append(t.Messages, counter{messageID, 1})
	return 0
}

// open is a block between its start and its end in the stream.
type open struct {
	Index int    `json:"i"`
	ID    string `json:"id"`
	Type  string `json:"type"`
	// Whole: the whole block has already arrived.
	Whole bool `json:"whole,omitempty"`
}

// tool is a call without result.
type tool struct {
	Conversation string `json:"conv"`
	// Skill is set for a call that loads a skill.
	Skill string `json:"skill,omitempty"`
	// Number is the order of the open calls.
	Number int `json:"n,omitempty"`
	// Since is when the call arrived, in Unix milliseconds; 0 if not known.
	Since int64 `json:"since,omitempty"`
}

// agent is a native subagent that runs.
type agent struct {
	Conversation string `json:"conv"`
	ID           string `json:"id,omitempty"`
	Prompt       string `json:"prompt,omitempty"`
	// Prompted: the line that repeats the prompt has arrived.
	Prompted bool `json:"prompted,omitempty"`
	// Async: its caller does not wait for it; a notification reports its end.
	Async bool `json:"async,omitempty"`
	// Adopted: its start is in no file; its first prompt and its end are guessed.
	Adopted bool `json:"adopted,omitempty"`
	// Cut: it was adopted, and died before its start was written.
	Cut bool `json:"cut,omitempty"`
}

func newState() *state {
	return &state{
		Version: stateVersion,
		Threads: map[string]*thread{},
		Tools:   map[string]tool{},
		Agents:  map[string]*agent{},
		Early:   map[string]string{},
		Asks:    map[string]string{},
		Models:  map[string]string{},
		Aliases: map[string]string{"cost": "usage", "stats": "usage"},
	}
}

func (s *state) thread(conversation string) *thread {
	t := s.Threads[conversation]
	if t == nil {
		t = &thread{}
		s.Threads[conversation] = t
	}
	return t
}

// turn is the state of the exchange with the program.
type turn struct {
	Phase phase `json:"phase,omitempty"`
	// Shown: the prompt of this turn is in the conversation.
	Shown bool `json:"shown,omitempty"`
	// Begun: the program has started the session in this process.
	Begun bool `json:"begun,omitempty"`
	// Queue are prompts written to the program and not yet taken by it.
	Queue []prompt `json:"queue,omitempty"`
	// Merged are queued prompts that the program folds into the next one.
	Merged []string `json:"merged,omitempty"`
	// Taken are the prompts of this turn, whose replays are ignored.
	Taken []prompt `json:"taken,omitempty"`
	// Interrupted: the host requested the end of this turn.
	Interrupted bool `json:"interrupted,omitempty"`
	// Resulted: a tool's result has arrived since the last model request.
	Resulted bool `json:"resulted,omitempty"`
	// Quiet: idle was emitted, and nothing has happened since.
	Quiet bool `json:"quiet,omitempty"`
	// Billed is the usage of the messages since the last result.
	Billed event.Usage `json:"billed,omitzero"`
	Result *turnEnd    `json:"result,omitempty"`
}

// phase is the phase of a turn.
type phase string

const (
	// idle: the program has no prompt.
	idle phase = ""
	// starting: a prompt is written, and no model request was made for it yet.
	starting phase = "starting"
	running  phase = "running"
)

// turnEnd is the content of the last result line.
type turnEnd struct {
	StopReason  string `json:"stop,omitempty"`
	Interrupted bool   `json:"interrupted,omitempty"`
	Message     string `json:"message,omitempty"`
	Code        string `json:"code,omitempty"`
}

// prompt is a message on its way to the program.
type prompt struct {
	// ID is the host's; "" if it gave none.
	ID      string          `json:"id,omitempty"`
	Content json.RawMessage `json:"content"`
}
