package adapters

import (
	"encoding/json"
	"errors"
	"io"
	"iter"
	"reflect"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/permission"
)

// ErrNotInstalled is wrapped by Locate when the agent's program is not on the
// machine. The message names what to install.
var ErrNotInstalled = errors.New("agent is not installed")

// ErrUnsupported is wrapped by Encode for an input that this agent does not
// support.
var ErrUnsupported = errors.New("not supported by this agent")

// ErrNotYet is wrapped by Encode for an input that the agent can take only after
// some further output: its own session's id, say. Try again after the next
// record.
var ErrNotYet = errors.New("the agent is not ready for it yet")

// ErrRefused is wrapped by Encode when the agent will never take the input
// because its opening failed: it has no session to continue with. The message has
// the agent's error.
var ErrRefused = errors.New("the agent refused the session")

// ErrUnknownAgent is wrapped by Registry.Get for a name that no adapter has.
var ErrUnknownAgent = errors.New("unknown agent")

// Adapter is one agent. Implementations hold no state of a session and are
// safe for concurrent use.
type Adapter interface {
	// Info returns the agent's name and capabilities.
	Info() Info

	// Locate finds the agent's program through the environment (PATH and the agent's
	// own variables), or fails with ErrNotInstalled.
	Locate(getenv func(string) string) (program string, err error)

	// NativeID returns the id for the n-th native session (n counts from 1) of a
	// Sojourn session, if the agent lets the caller choose it; else "".
	NativeID(sessionID string, n int) string

	// ProfileFiles returns the files that apply a profile to the agent, and the
	// agent's own settings. Paths are in Home or Workspace.
	ProfileFiles(Profile, Launch) ([]File, error)

	// Prepare inspects the home before a process of the agent is started: which
	// native session it has, and what must be repaired first. It changes nothing
	// itself. All lines are whole, see [WholeLines].
	Prepare(home Home, l Launch) (Preparation, error)

	// Command returns the long-lived process of the agent.
	Command(Launch) (Command, error)

	// Translator returns a translator that continues from a state that an earlier
	// Translator of this agent returned, or starts at the beginning for nil. The
	// launch is that of the agent's process, for what must be written to it;
	// translating recorded lines does not need it.
	Translator(l Launch, state json.RawMessage) (Translator, error)

	// Transcripts returns the session's native transcripts among the files of a home;
	// none, and no error, for a home without any.
	Transcripts(home Home, l Launch) ([]Transcript, error)

	// Place returns the path of an archived transcript in the home of this launch:
	// some agents file transcripts by the workspace's path, which differs between
	// sandboxes.
	Place(t Transcript, l Launch) string

	// Parse turns native transcripts into events: whole blocks only. An error names
	// file and line, and the iteration continues behind it: a broken line costs that
	// line, a file that can't be read its rest, and everything else is still yielded.
	// A caller that wants all or nothing stops at the first error.
	Parse([]Source) iter.Seq2[event.Event, error]
}

// Translator is one side of the conversation with an agent's process: it turns
// native records into events, and from the same records derives what to write to
// the process. It is a pure step over its state, which is made of records only:
// no clock, no randomness. Not safe for concurrent use.
type Translator interface {
	// Step never fails: an unknown record becomes a native event, a malformed one an
	// error event. Events carry conversation, source and the record's time; the
	// caller adds the session id and the sequence number.
	Step(traffic.Record) []event.Event

	// Due returns what must be written to the agent now without a caller's input: the
	// next step of its opening, an answer that its protocol requires. Call it after
	// every step. A translator returns each message once. Another one that steps
	// through the same records returns it again under the same id, and the runner
	// writes it once.
	Due() []Message

	// Encode returns what is written to the agent for an input, in the state after
	// the last step. id identifies the input in the session; the first message has
	// it, and further ones have ids derived from it. It changes nothing. No messages:
	// the agent has no use for the input. Errors: ErrUnsupported, ErrNotYet,
	// ErrRefused.
	Encode(id string, in Input) ([]Message, error)

	// State returns the state after the last step, as JSON.
	State() (json.RawMessage, error)
}

// Message is something to write to an agent's process, once per id.
type Message struct {
	// ID is the same whenever the same message is made again. No other message of the
	// session has it, also in another process of the agent.
	ID string
	// Data is for a stdio agent one line without its end, for an HTTP agent a request
	// in the runner's form.
	Data []byte
}

// Preparation is the result of Prepare.
type Preparation struct {
	// NativeID is the native session in the home to continue with; "" means that
	// there is none, and a new one is started.
	NativeID string
	// Prompts is how many prompts NativeID has had, for an agent that does not say it
	// and whose blocks are named by it.
	Prompts int
	// Move are files of the home to move before the start, and Write those to write
	// after that, in order: repairs after a kill, and settings that depend on the launch.
	Move  []Move
	Write []Repair
	// Note describes what was repaired, for the conversation; "" if nothing was lost.
	Note string
}

// Info describes an agent. It is data that `sojourn doctor` prints.
type Info struct {
	// Name is the name used in commands: claude, opencode, …
	Name string `json:"name"`
	// Product is the product's name: Claude Code.
	Product string `json:"product"`
	// Architecture is the name that older systems of this kind use.
	Architecture string `json:"architecture"`
	// Mode describes how its process is run and addressed.
	Mode string `json:"mode"`
	// Files describes where it keeps its transcripts, relative to its home, and how
	// they are archived.
	Files        string       `json:"files"`
	Capabilities Capabilities `json:"capabilities"`
	// Variables are the environment variables that its program needs, such as the
	// model's key and address, the most needed first. Of a worker's environment an
	// agent gets only what SOJOURN_PASS_ENV names, so operators must know them.
	Variables []Variable `json:"variables,omitempty"`
	// Limits are what operators must know beyond the capabilities, a sentence each.
	Limits []string `json:"limits,omitempty"`
	// SilentUsage: the usage of a message is in the transcripts and not on the stream. The end of a
	// turn streams it, as [Follower] reads it.
	SilentUsage bool `json:"silentUsage,omitempty"`
}

// Capabilities is what an agent can do beyond answering.
type Capabilities struct {
	// ChosenID: the caller can choose the native session id.
	ChosenID bool `json:"chosenId"`
	// PartialText: text is streamed while it is written.
	PartialText bool `json:"partialText"`
	Thinking    bool `json:"thinking"`
	// Subagents: the agent can run subagents itself.
	Subagents bool `json:"subagents"`
	// LiveSubagents: a native subagent's messages are streamed live.
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
	// Cost: the agent reports a turn's cost.
	Cost bool `json:"cost"`
	// Ticks: the agent tells one model call from another, by event.MetadataUpdate.Calls.
	Ticks bool `json:"ticks"`
}

// Launch is what the agent is started with.
type Launch struct {
	// Program is the result of Locate.
	Program string
	// Runner is the runner program's path in the agent's sandbox, for an adapter that
	// starts its agent through it; "" if nothing is started.
	Runner string
	// Home and Workspace are absolute paths as the agent sees them.
	Home, Workspace string
	SessionID       string
	// NativeID is the id chosen by Adapter.NativeID, or, once there is a native
	// session, the one that Prepare found.
	NativeID string
	// Resume continues with the native session NativeID. What Prepare found in Home
	// decides both, never a flag.
	Resume bool
	// Prompts is what Prepare found of NativeID.
	Prompts int
	// Unfinished are the prompts that the process before may have had of a turn that this one
	// is to continue, in the order in which they were sent: an agent that has taken one back
	// gets it again from Prepare. Default: none, the last turn has ended.
	Unfinished []Unfinished
	// Model is the agent's name for the model; "" leaves the agent's default.
	Model string
	// Permission is the agent's own mode: allow, ask or deny.
	Permission Permission
	// Policy is the profile's answers to permission requests; the session's own take
	// precedence. Adapters ignore it: the host answers.
	Policy permission.Policy
	// SystemPrompt is appended to the agent's own.
	SystemPrompt string
	// MCPServers come from the profile, the bundled ones too.
	MCPServers map[string]MCPServer
	// Env is the environment that the sandbox gives every process, for settings that
	// an agent reads from a file and its users set in the environment.
	Env map[string]string
}

// Unfinished is a prompt of a turn that was broken off.
type Unfinished struct {
	// ID is that of its block.
	ID string
	// Begins is how its text begins; "" if it is not known.
	Begins string
}

// Completer is an adapter whose program writes a prompt before it writes which one it is.
type Completer interface {
	// Complete returns what must be written to the home of an exited process, in order, so
	// that its transcripts name the prompt, one of the launch's unfinished ones, behind which
	// the process was killed. Usually nothing. All lines are whole, see [WholeLines].
	Complete(home Home, l Launch) ([]Repair, error)
}

// Wrapped is an adapter whose Command starts the agent's program through another
// one, or whose Locate returns more than a path.
type Wrapped interface {
	// ProgramFile returns the path of the agent's program in a result of Locate.
	ProgramFile(program string) string
}

// Beating is an adapter whose agents periodically report only that they run. The
// host that waits for an agent's progress does not count such lines.
type Beating interface {
	// Beats reports whether a line of the agent is such a report.
	Beats(line string) bool
}

// Permission is the default answer to an agent's permission request.
type Permission = permission.Answer

const (
	PermissionAllow = permission.Allow
	PermissionAsk   = permission.Ask
	PermissionDeny  = permission.Deny
)

// MustRestartToAsk reports whether a process of this launch must be started anew before it asks:
// it runs everything, and may have loaded from the workspace's settings what runs unasked, and one
// that asks has another command. Where the command is always the same nothing would change.
func MustRestartToAsk(a Adapter, l Launch) bool {
	if l.Permission.Asks() {
		return false
	}
	now, err := a.Command(l)
	l.Permission = PermissionAsk
	asking, askErr := a.Command(l)
	return err == nil && askErr == nil && !reflect.DeepEqual(now, asking)
}

// Command is a process to start in a sandbox.
type Command struct {
	Argv []string
	// Env is added to the sandbox's environment.
	Env map[string]string
	Dir string
	// Helpers are the names of programs in the folder of the agent's own that its
	// process starts for itself when it first needs them. The end of a turn ends the
	// turn's processes, but not those. Default: none.
	Helpers []string
	// HTTP is for an agent that serves HTTP instead of reading lines. Default:
	// nil, lines on stdio.
	HTTP *HTTP
}

// HTTP describes how an agent's server is found and addressed; see the runner's
// HTTP transport for the form of requests, responses and events.
type HTTP struct {
	// Ready is the prefix of the line, on either output, that names the server's URL.
	Ready string
	// Events is the path of its stream of server-sent events.
	Events string
	// User and PasswordEnv: the server takes the password of its basic authentication
	// from that variable. Default: none.
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

// Input is an input for a running agent: one of Initialize, Prompt, Interrupt,
// SetModel, SetPermission and Answer.
type Input interface{ input() }

// Initialize opens the exchange with a new process of the agent. It precedes
// every other input; further steps of the opening are returned by Due.
type Initialize struct{}

// Prompt passes on a message.
type Prompt struct {
	// MessageID is Sojourn's id of the message.
	MessageID string
	Text      string
	Parts     []event.Part
	// Model and Permission apply from this prompt on, for agents that take them with
	// each; "" changes nothing.
	Model      string
	Permission Permission
	// Steer asks to fold the message into the running turn.
	Steer bool
}

// Interrupt stops the running turn, its subagents included, and leaves the
// process alive.
type Interrupt struct{}

// SetModel changes the model from the next request on.
type SetModel struct{ Model string }

// SetPermission changes the default answer.
type SetPermission struct{ Permission Permission }

// Answer answers a permission:requested event.
type Answer struct {
	// RequestID is that of the event.
	RequestID string
	Allow     bool
	// Message is passed to the agent with a denial.
	Message string
	// Input replaces the tool's input, see [InputChanging], or holds the answers to a question. It
	// is never empty with Allow where the request had an input: some agents
	// want it repeated.
	Input json.RawMessage
}

// InputChanging is implemented by adapters whose agent runs a tool with the input that
// an answer gives it. Any other runs what it asked for.
type InputChanging interface{ ChangesInput() }

func (Initialize) input()    {}
func (Prompt) input()        {}
func (Interrupt) input()     {}
func (SetModel) input()      {}
func (SetPermission) input() {}
func (Answer) input()        {}

// Home lists and opens files below an agent's home. Paths are relative, with
// slashes.
type Home interface {
	// Glob returns the matching paths, in order; no match is not an error.
	Glob(pattern string) ([]string, error)
	Open(path string) (io.ReadCloser, error)
	// OpenAt opens a file from a byte on, without reading what precedes it; of a file
	// that is shorter nothing is read.
	OpenAt(path string, offset int64) (io.ReadCloser, error)
}

// Databases is a Home whose SQLite databases can be queried in place. The cost of
// a query depends on its rows, not on the size of the database.
type Databases interface {
	// OpenDatabase opens a database for reading. Error: [errors.ErrUnsupported].
	OpenDatabase(path string) (Database, error)
}

// Database is a consistent view of a database at one moment. Not safe for
// concurrent use.
type Database interface {
	// Query returns the columns of a query, and its rows, whose values are nil,
	// int64, float64, string or []byte; a row is valid until the next one. The rows
	// must be read before the next query.
	Query(sql string, args ...any) (columns []string, rows iter.Seq2[[]any, error], err error)
	Close() error
}

// Transcript is one native transcript file of a session.
type Transcript struct {
	// ID is event.Main, or the subagent's native id; a companion file of a transcript
	// has the transcript's id and a suffix, as in "a1b2.meta".
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

// Follower is an adapter that can continue a parse where it ended: the cost of a
// turn depends on what was written in it, and not on what was written before.
type Follower interface {
	// Follow calls take with the events of Parse for the session's own conversation,
	// from a cursor on (nil: from the beginning), and returns the cursor behind them,
	// which is small. Incomplete lines are left for the next call, and so may be what
	// is not known to be complete: an event may be repeated in its later form, and
	// none is left out. Lines that can't be read are skipped. Transcripts that were
	// rewritten are read from their beginning.
	Follow(home Home, l Launch, since json.RawMessage, take func(event.Event)) (next json.RawMessage, err error)
}

// Naming is an adapter whose agent has its own form of message ids.
type Naming interface {
	// BlockID returns the id of a message's block, live and in the transcripts. It is
	// deterministic.
	BlockID(messageID string) string
}

// Exporter is an adapter whose agent keeps its sessions in a database. Its
// Snapshot transcripts are archived as JSON lines of what changed in them, which
// only grow, and are converted to files again for another home; Parse accepts the
// lines as well as the database.
type Exporter interface {
	// Export calls take with whole lines for what has changed in t behind the cursor
	// (nil: everything), usually few and maybe none, and returns the cursor behind
	// them. They are of one consistent view of the database, and a line may repeat
	// what an earlier one has. More than about a MiB is passed in pieces, each valid
	// during its call, so that an export of any size takes little memory. An error of
	// take ends the export.
	Export(home Home, t Transcript, since json.RawMessage, take func(lines []byte) error) (next json.RawMessage, err error)
	// Cursor returns the cursor behind lines that were exported earlier.
	Cursor(lines io.Reader) (json.RawMessage, error)
	// Import writes, into the folder scratch, the files that the lines describe, and
	// returns each file's path in scratch by its path in the home of this launch:
	// they may be larger than memory.
	Import(exported []Source, l Launch, scratch string) (files map[string]string, err error)
}
