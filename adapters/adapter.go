package adapters

import (
	"encoding/json"
	"errors"
	"io"
	"iter"

	"github.com/sojourn-run/sojourn/event"
)

// ErrNotInstalled is wrapped by Locate when the agent's program is not on the
// machine. The message says what to install.
var ErrNotInstalled = errors.New("agent is not installed")

// ErrUnsupported is wrapped by Encode for an input that this agent cannot take.
var ErrUnsupported = errors.New("not supported by this agent")

// ErrUnknownAgent is wrapped by Registry.Get for a name that no adapter has.
var ErrUnknownAgent = errors.New("unknown agent")

// Adapter is one agent. Implementations hold no state of a session and are
// safe for concurrent use.
type Adapter interface {
	// Info names the agent and what it can do.
	Info() Info

	// Locate finds the agent's program by the environment (PATH and the
	// agent's own variables), or fails with ErrNotInstalled.
	Locate(getenv func(string) string) (program string, err error)

	// NativeID is the id under which the agent keeps its n-th native session
	// (n counts from 1) of a Sojourn session, where the agent lets us choose;
	// else "".
	NativeID(sessionID string, n int) string

	// ProfileFiles gives the files that make a profile known to the agent,
	// and the agent's own settings. Paths lie in Home or Workspace.
	ProfileFiles(Profile, Launch) ([]File, error)

	// Command is the long-lived process of the agent.
	Command(Launch) (Command, error)

	// Encode gives what is written to the agent for an input: for a stdio
	// agent one line without its end. An input that the agent has no use for
	// gives nil; one that it cannot take is ErrUnsupported.
	Encode(Input) ([]byte, error)

	// Translator starts the translation at a state that an earlier
	// Translator of this agent gave, or at the beginning for nil.
	Translator(state json.RawMessage) (Translator, error)

	// Transcripts finds the session's native transcripts among the files of
	// a home. A home without any gives none and no error.
	Transcripts(home Home, l Launch) ([]Transcript, error)

	// Place says where a transcript from the archive belongs in the home of
	// this launch: some agents file transcripts by the workspace's path, which
	// another sandbox has elsewhere.
	Place(t Transcript, l Launch) string

	// Parse turns native transcripts into events: whole blocks only. An error
	// names file and line, and the iteration goes on behind it: a broken line
	// costs that line, a file that can't be read its rest, and what is good
	// still comes. A caller that wants all or nothing stops at the first error.
	Parse([]Source) iter.Seq2[event.Event, error]
}

// Translator turns native records into events. It is a pure step over its
// state: no clock, no randomness. Not safe for concurrent use.
type Translator interface {
	// Step never fails: what it does not know becomes a native event, what is
	// malformed an error event. Events carry conversation, source and the
	// record's time; the session id and the sequence number come later.
	Step(event.Record) []event.Event
	// State is the state after the last step, as JSON.
	State() (json.RawMessage, error)
}

// Info describes an agent. It is data that `sojourn doctor` prints.
type Info struct {
	// Name is the word used in commands: claude, opencode, …
	Name string `json:"name"`
	// Product is what people call it: Claude Code.
	Product string `json:"product"`
	// Architecture is the name that older systems of this kind know it by.
	Architecture string       `json:"architecture"`
	Capabilities Capabilities `json:"capabilities"`
}

// Capabilities says what an agent can do beyond answering.
type Capabilities struct {
	// ChosenID: the native session id can be chosen by us.
	ChosenID bool `json:"chosenId"`
	// PartialText: text is streamed while it is written.
	PartialText bool `json:"partialText"`
	Thinking    bool `json:"thinking"`
	// LiveSubagents: a native subagent's messages come live.
	LiveSubagents bool `json:"liveSubagents"`
	// Steer: a message can be folded into a running turn.
	Steer bool `json:"steer"`
	// Approve: the agent can ask the host before it runs a tool.
	Approve bool `json:"approve"`
	// Interrupt: a turn can be stopped without ending the process.
	Interrupt bool `json:"interrupt"`
	Images    bool `json:"images"`
	// Cost: the agent reports what a turn cost.
	Cost bool `json:"cost"`
}

// Launch is what the agent is started with.
type Launch struct {
	// Program is what Locate found.
	Program string
	// Home and Workspace are absolute paths as the agent sees them.
	Home, Workspace string
	SessionID       string
	NativeID        string
	// Resume goes on with the native session; it is decided by the transcript
	// that lies in Home, never by a flag.
	Resume bool
	// Model is the agent's own name for it; "" leaves the agent's default.
	Model string
	// Permission is allow, ask or deny.
	Permission Permission
	// SystemPrompt is appended to the agent's own.
	SystemPrompt string
	// MCPServers come from the profile.
	MCPServers map[string]MCPServer
}

// Permission is the standing answer to an agent that asks before it acts.
type Permission string

const (
	PermissionAllow Permission = "allow"
	PermissionAsk   Permission = "ask"
	PermissionDeny  Permission = "deny"
)

// Command is a process to start in a sandbox.
type Command struct {
	Argv []string
	// Env is added to what the sandbox gives every process.
	Env map[string]string
	Dir string
}

// File is a file to put into a sandbox.
type File struct {
	Base Base
	// Path is relative to Base, with slashes.
	Path string
	Mode uint32
	Data []byte
}

// Base is the folder that a path is relative to.
type Base string

const (
	InHome      Base = "home"
	InWorkspace Base = "workspace"
)

// Input is something to be written to a running agent: one of Initialize,
// Prompt, Interrupt, SetModel, SetPermission and Answer.
type Input interface{ input() }

// Initialize is written once to every new process of the agent.
type Initialize struct {
	RequestID    string
	SystemPrompt string
}

// Prompt hands over a message.
type Prompt struct {
	// MessageID is Sojourn's id of the message.
	MessageID string
	NativeID  string
	Text      string
	Parts     []event.Part
}

// Interrupt stops the running turn and leaves the process alive.
type Interrupt struct{ RequestID string }

// SetModel changes the model from the next request on.
type SetModel struct{ RequestID, Model string }

// SetPermission changes the standing answer.
type SetPermission struct {
	RequestID  string
	Permission Permission
}

// Answer answers a permission:requested event.
type Answer struct {
	// RequestID is the event's.
	RequestID string
	Allow     bool
	// Message is what the agent hears with a denial.
	Message string
	// Input replaces the tool's input; nil leaves it. The adapter needs the
	// original input (from the event) because some agents want it repeated.
	Input json.RawMessage
}

func (Initialize) input()    {}
func (Prompt) input()        {}
func (Interrupt) input()     {}
func (SetModel) input()      {}
func (SetPermission) input() {}
func (Answer) input()        {}

// Home lists and opens files below an agent's home. Paths are relative, with
// slashes.
type Home interface {
	// Glob gives the paths that match, in order; no match is no error.
	Glob(pattern string) ([]string, error)
	Open(path string) (io.ReadCloser, error)
}

// Transcript is one native transcript file of a session.
type Transcript struct {
	// ID is event.Main, or the subagent's native id; a companion file that
	// belongs to a transcript has the transcript's id and a suffix, as in
	// "a1b2.meta".
	ID string `json:"id"`
	// Path is relative to the home.
	Path string `json:"path"`
	Kind Kind   `json:"kind"`
}

// Kind says how a transcript grows.
type Kind string

const (
	// Append files only grow at the end; they are archived byte for byte.
	Append Kind = "append"
	// Snapshot files are rewritten; they are archived whole.
	Snapshot Kind = "snapshot"
)

// Source is a transcript with its content, from a home, an archive or a file.
type Source struct {
	Transcript
	// Open may be called more than once.
	Open func() (io.ReadCloser, error)
}
