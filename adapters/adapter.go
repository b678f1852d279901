package adapters

import (
	"encoding/json"
	"errors"
	"io"
	"iter"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
)

// ErrNotInstalled is wrapped by Locate when the agent's program is not on the
// machine. The message says what to install.
var ErrNotInstalled = errors.New("agent is not installed")

// ErrUnsupported is wrapped by Encode for an input that this agent cannot take.
var ErrUnsupported = errors.New("not supported by this agent")

// ErrNotYet is wrapped by Encode for an input that the agent can take only
// after it has said something more: its own session's id, say. Ask again after
// the next record.
var ErrNotYet = errors.New("the agent is not ready for it yet")

// ErrRefused is wrapped by Encode when the agent will never take the input
// because its opening failed: it has no session to continue with. The message
// has the agent's own words.
var ErrRefused = errors.New("the agent refused the session")

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

	// ProfileFiles returns the files that make a profile known to the agent,
	// and the agent's own settings. Paths lie in Home or Workspace.
	ProfileFiles(Profile, Launch) ([]File, error)

	// Prepare looks at the home before a process of the agent is started: which
	// native session is there, and what must be mended first. It changes
	// nothing itself.
	Prepare(home Home, l Launch) (Preparation, error)

	// Command is the long-lived process of the agent.
	Command(Launch) (Command, error)

	// Translator starts the translation at a state that an earlier Translator
	// of this agent returned, or at the beginning for nil. The launch is that of
	// the agent's process, for what must be written to it; a translation of
	// recorded lines needs none.
	Translator(l Launch, state json.RawMessage) (Translator, error)

	// Transcripts finds the session's native transcripts among the files of
	// a home; none, and no error, of a home without any.
	Transcripts(home Home, l Launch) ([]Transcript, error)

	// Place returns where a transcript from the archive belongs in the home of
	// this launch: some agents file transcripts by the workspace's path, which
	// another sandbox has elsewhere.
	Place(t Transcript, l Launch) string

	// Parse turns native transcripts into events: whole blocks only. An error
	// names file and line, and the iteration continues behind it: a broken line
	// costs that line, a file that can't be read its rest, and what is good
	// still comes. A caller that wants all or nothing stops at the first error.
	Parse([]Source) iter.Seq2[event.Event, error]
}

// Translator is one side of the conversation with an agent's process: it turns
// native records into events, and knows from them how the process is spoken to.
// It is a pure step over its state, which is made of records only: no clock, no
// randomness. Not safe for concurrent use.
type Translator interface {
	// Step never fails: what it does not know becomes a native event, what is
	// malformed an error event. Events carry conversation, source and the
	// record's time; the session id and the sequence number come later.
	Step(event.Record) []event.Event

	// Due returns what must be written to the agent now although no caller asked
	// for it: the next step of its opening, an answer that its protocol wants.
	// It is asked for after every step, and each message is given once by a
	// translator. Another one that steps through the same records gives it
	// again under the same id, and the runner writes it once.
	Due() []Message

	// Encode returns what is written to the agent for an input, as things stand
	// after the last step. id identifies the input in the session;
	// the first message has it, and further ones have ids made of it. It
	// changes nothing. None: the agent
	// has no use for the input. Errors: ErrUnsupported, ErrNotYet, ErrRefused.
	Encode(id string, in Input) ([]Message, error)

	// State is the state after the last step, as JSON.
	State() (json.RawMessage, error)
}

// Message is something to write to an agent's process, once per id.
type Message struct {
	// ID is the same whenever the same message is made again, and no other
	// message of the session has it, also not in another process of the agent.
	ID string
	// Data is for a stdio agent one line without its end, for an HTTP agent a
	// request as the runner takes it.
	Data []byte
}

// Preparation is what Prepare found.
type Preparation struct {
	// NativeID is the native session that is in the home and is continued
	// with; "" means that none does, and a new one is begun.
	NativeID string
	// Move are files of the home to move before the start, and Write those to
	// write after that, one after the other: repairs after a kill. Mostly none.
	Move  []Move
	Write []Repair
	// Note says in words what was repaired, for the conversation; "" if
	// nothing that anybody would miss.
	Note string
}

// Info describes an agent. It is data that `sojourn doctor` prints.
type Info struct {
	// Name is the word used in commands: claude, opencode, …
	Name string `json:"name"`
	// Product is what people call it: Claude Code.
	Product string `json:"product"`
	// Architecture is the name that older systems of this kind know it by.
	Architecture string `json:"architecture"`
	// Mode is how its process is run and spoken to, in words.
	Mode string `json:"mode"`
	// Files is where it keeps its transcripts, relative to its home, and how
	// they are archived, in words.
	Files        string       `json:"files"`
	Capabilities Capabilities `json:"capabilities"`
	// Variables are what its program wants to find in its environment, the
	// model's key and address, the most needed first. An agent sees of a worker's
	// environment only what SOJOURN_PASS_ENV names, so people must know.
	Variables []Variable `json:"variables,omitempty"`
	// Limits are what people must know that no capability says, a sentence
	// each.
	Limits []string `json:"limits,omitempty"`
}

// Capabilities is what an agent can do beyond answering.
type Capabilities struct {
	// ChosenID: the native session id can be chosen by us.
	ChosenID bool `json:"chosenId"`
	// PartialText: text is streamed while it is written.
	PartialText bool `json:"partialText"`
	Thinking    bool `json:"thinking"`
	// Subagents: the agent can run subagents of its own.
	Subagents bool `json:"subagents"`
	// LiveSubagents: a native subagent's messages come live.
	LiveSubagents bool `json:"liveSubagents"`
	// Steer: a message can be folded into a running turn.
	Steer bool `json:"steer"`
	// Approve: the agent can ask the host before it runs a tool.
	Approve bool `json:"approve"`
	// Questions: the agent can ask the user a question and wait.
	Questions bool `json:"questions"`
	// SetModel: the model can be changed without a new process.
	SetModel bool `json:"setModel"`
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
	// Runner is the runner program as the agent's sandbox has it, for an adapter
	// that starts its agent by it; "" where nothing is started.
	Runner string
	// Home and Workspace are absolute paths as the agent sees them.
	Home, Workspace string
	SessionID       string
	// NativeID is the id chosen by Adapter.NativeID, or, once there is a native
	// session, the one that Prepare found.
	NativeID string
	// Resume continues with the native session NativeID; both are decided by
	// what Prepare found in Home, never by a flag.
	Resume bool
	// Model is the agent's own name for it; "" leaves the agent's default.
	Model string
	// Permission is what the agent is told: allow, ask or deny.
	Permission Permission
	// Policy is what the profile has the agent answered; the session's own goes before
	// it. Adapters leave it alone: the host answers.
	Policy permission.Policy
	// SystemPrompt is appended to the agent's own.
	SystemPrompt string
	// MCPServers come from the profile.
	MCPServers map[string]MCPServer
	// Env is what the sandbox gives every process, for settings that an agent
	// takes from a file and its users from the environment.
	Env map[string]string
}

// Wrapped is an adapter whose Command starts the agent's program by another
// one, or for which Locate returns more than a path.
type Wrapped interface {
	// ProgramFile is the path of the agent's program in what Locate returned.
	ProgramFile(program string) string
}

// Beating is an adapter whose agents say now and then no more than that they
// run. The host that waits for an agent's progress does not count that.
type Beating interface {
	// Beats reports whether a line of the agent is only that.
	Beats(line string) bool
}

// Permission is the standing answer to an agent that asks before it acts.
type Permission = permission.Answer

const (
	PermissionAllow = permission.Allow
	PermissionAsk   = permission.Ask
	PermissionDeny  = permission.Deny
)

// Command is a process to start in a sandbox.
type Command struct {
	Argv []string
	// Env is added to what the sandbox gives every process.
	Env map[string]string
	Dir string
	// Helpers are the names of programs that lie beside the agent's own and that
	// its process starts for itself when it first needs them. The end of a turn
	// ends what the turn started, but not those. Default: none.
	Helpers []string
	// HTTP is for an agent that serves HTTP instead of reading lines. Default:
	// nil, lines on stdio.
	HTTP *HTTP
}

// HTTP is how an agent's server is found and addressed; see the runner's
// HTTP transport for the form of requests, responses and events.
type HTTP struct {
	// Ready begins the line, on either output, that names the server's URL.
	Ready string
	// Events is the path of its stream of server-sent events.
	Events string
	// User and PasswordEnv: the server takes its basic authentication's
	// password from that variable. Default: none.
	User, PasswordEnv string
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

// Input is something to be said to a running agent: one of Initialize,
// Prompt, Interrupt, SetModel, SetPermission and Answer.
type Input interface{ input() }

// Initialize opens the exchange with a new process of the agent. It comes
// before every other input; what the opening needs further comes by Due.
type Initialize struct{}

// Prompt hands over a message.
type Prompt struct {
	// MessageID is Sojourn's id of the message.
	MessageID string
	Text      string
	Parts     []event.Part
	// Model and Permission are in force from this prompt on, for agents that
	// want them with each; "" leaves what is.
	Model      string
	Permission Permission
	// Steer wants the message folded into the turn that runs.
	Steer bool
}

// Interrupt stops the running turn, its subagents included, and leaves the
// process alive.
type Interrupt struct{}

// SetModel changes the model from the next request on.
type SetModel struct{ Model string }

// SetPermission changes the standing answer.
type SetPermission struct{ Permission Permission }

// Answer answers a permission:requested event.
type Answer struct {
	// RequestID is the event's.
	RequestID string
	Allow     bool
	// Message is the text that the agent gets with a denial.
	Message string
	// Input replaces the tool's input, or holds the answers to a question. It
	// is never empty with Allow where the request had an input: some agents
	// want it repeated.
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
	// Glob returns the paths that match, in order; no match is no error.
	Glob(pattern string) ([]string, error)
	Open(path string) (io.ReadCloser, error)
	// OpenAt opens a file from a byte on. What is before it costs nothing; of a
	// file that is shorter nothing is read.
	OpenAt(path string, offset int64) (io.ReadCloser, error)
}

// Databases is a Home whose SQLite databases can be queried where they are. What
// a query costs depends on its rows, and not on the size of the database.
type Databases interface {
	// OpenDatabase opens a database for reading. Error: [errors.ErrUnsupported].
	OpenDatabase(path string) (Database, error)
}

// Database is a database as it is at one moment. Not safe for concurrent use.
type Database interface {
	// Query returns the columns of a query, and its rows, whose values are nil,
	// int64, float64, string or []byte; a row is valid until the next one. The rows
	// must be read before the next query.
	Query(sql string, args ...any) (columns []string, rows iter.Seq2[[]any, error], err error)
	Close() error
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

// Kind is how a transcript grows.
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

// Follower is an adapter that can parse on where it stopped: what a turn costs
// depends on what was written in it, and not on what was written before.
type Follower interface {
	// Follow calls take with the events of Parse for the session's own conversation, from
	// a cursor on (nil: from the beginning), and returns the cursor behind it, which
	// is small. Lines that have no end yet are left for the next call, and so may be
	// what is not known to be complete: something may come again, as it is then,
	// and nothing is left out. Lines that can't be read are. Transcripts that were
	// written anew are read from their beginning.
	Follow(home Home, l Launch, since json.RawMessage, take func(event.Event)) (next json.RawMessage, err error)
}

// Naming is an adapter whose agent knows messages by ids of a form of its own.
type Naming interface {
	// BlockID returns the id of the block that a message becomes, live and in the
	// transcripts. It is deterministic.
	BlockID(messageID string) string
}

// Exporter is an adapter whose agent keeps its sessions in a database. Its
// Snapshot transcripts are archived as JSON lines of what changed in them, which
// only grow, and are made into files again for another home; Parse takes the
// lines as well as the database.
type Exporter interface {
	// Export calls take with whole lines for what has changed in t behind the cursor
	// (nil: everything), mostly few and maybe none, and returns the cursor behind
	// them. They are of one consistent view of the database, and a line may say
	// again what one before it said. What is more than about a MiB is given in
	// pieces, each valid during its call, so that an export of any size takes
	// little memory. An error of take ends the export.
	Export(home Home, t Transcript, since json.RawMessage, take func(lines []byte) error) (next json.RawMessage, err error)
	// Cursor returns the cursor behind lines that were exported before.
	Cursor(lines io.Reader) (json.RawMessage, error)
	// Import makes the files that say in the home of this launch what the lines
	// say, and returns which of the new files in the folder scratch is to have
	// which path in the home: they may be larger than memory.
	Import(exported []Source, l Launch, scratch string) (files map[string]string, err error)
}
