package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strings"
	"time"
)

var (
	// ErrNotFound means that no sandbox has the id: it was never made, or was
	// terminated.
	ErrNotFound = errors.New("no such sandbox")
	// ErrExists means that a sandbox with the id already exists; Open it.
	ErrExists = errors.New("sandbox exists already")
	// ErrTerminated means that the sandbox ended during the call.
	ErrTerminated = errors.New("sandbox is terminated")
	// ErrEscape means that a path or a symlink leads out of its area.
	ErrEscape = errors.New("path leads out of the sandbox")
	// ErrLimit means that a copy exceeded a limit of size or count.
	ErrLimit = errors.New("copy is over the limit")
	// ErrShort means that the host had no descriptor or memory left for a read. Nothing
	// is known of what was to be read; another try may succeed.
	ErrShort = errors.New("the host is short of descriptors or memory")
)

// WorkspaceError is returned by [Provider.Create] for a Workspace that the
// provider refuses. Another try helps only after the folder has changed.
type WorkspaceError struct {
	// Dir is the folder as the Spec has it.
	Dir string
	// Reason is what is wrong with it, Want what is right.
	Reason, Want string
}

// Error returns the field, the folder, the reason and what is right.
func (e *WorkspaceError) Error() string {
	return fmt.Sprintf("sandbox: field \"workspace\": %s %s; want %s", e.Dir, e.Reason, e.Want)
}

// Provider makes and finds sandboxes. All methods may be called concurrently.
type Provider interface {
	// Name returns the provider's name, as in Info.Provider.
	Name() string
	// Create makes a sandbox with empty areas and returns it when it is ready to take
	// files and commands. Errors: [ErrExists], [*WorkspaceError], or an invalid field
	// of the Spec by name; after an error nothing remains.
	Create(ctx context.Context, spec Spec) (Sandbox, error)
	// Open returns a sandbox that Create made, also in another process and after a
	// restart. Error: [ErrNotFound].
	Open(ctx context.Context, id string) (Sandbox, error)
	// List returns every sandbox of the provider that is not terminated, also
	// half-made ones (status starting), by id. A reconciler compares it with the open
	// sessions.
	List(ctx context.Context) ([]Info, error)
}

// Sandbox is the environment of one session's agent. All methods may be called
// concurrently; the value is a handle that owns nothing: dropping it does not end
// the sandbox.
type Sandbox interface {
	// ID returns the id that the sandbox was created with.
	ID() string
	// Info returns the sandbox's current state. After Terminate it returns the status
	// terminated and an exit code instead of an error.
	Info(ctx context.Context) (Info, error)
	// Exec starts a command. The process is killed when ctx ends; processes that it
	// has detached (such as the runner's supervisor) continue. Errors:
	// [ErrTerminated], or that the program cannot be started.
	Exec(ctx context.Context, cmd Command) (Process, error)
	// CopyIn writes files into an area: folders are made as needed, and existing
	// files are replaced in one step, so that a crash leaves the old one or the new
	// one; symlinks are made last and only if they stay inside. A file that can't be in
	// the area is skipped, and the others are written: a [*SkippedError]. An error of
	// the sequence, of ctx, of what the area is on (it is full, say), or [ErrLimit]
	// ends the copy.
	CopyIn(ctx context.Context, area Area, files iter.Seq2[File, error]) error
	// CopyOut reads the selection, folders before their entries, by path. Files that
	// disappear meanwhile are left out. A File's Body is valid until the next step of
	// the sequence and need not be read. An error ends the sequence.
	CopyOut(ctx context.Context, sel Selection) iter.Seq2[File, error]
	// Terminate ends every process in the sandbox and removes its areas (except for a
	// workspace that is the user's folder). It may be called again. Also after a
	// [LeftError] the sandbox has ended.
	Terminate(ctx context.Context) error
}

// SkippedError means that a copy into a sandbox is complete but for some files:
// their contents can't be read, they lead outside ([ErrEscape]), or the file system
// can't have such a name or such a file.
type SkippedError struct {
	// Files are the files, in the order in which they were skipped.
	Files []SkippedFile
}

// SkippedFile is a file that a copy left out.
type SkippedFile struct {
	Path string
	// Err names the file, and why.
	Err error
}

// Error returns a line for each file.
func (e *SkippedError) Error() string { return errors.Join(e.Unwrap()...).Error() }

// Unwrap returns the files' errors.
func (e *SkippedError) Unwrap() (all []error) {
	for _, f := range e.Files {
		all = append(all, f.Err)
	}
	return all
}

// LeftError means that a sandbox has ended, its id is free and it has no
// processes any more, but some of its files could not be removed yet: the agent
// protected them, or there are very many. A [Tidier] retries.
type LeftError struct {
	// Path is where the files are.
	Path string
	// Err names what could not be removed, and why.
	Err error
}

// Error returns one line.
func (e *LeftError) Error() string {
	return "not removed yet: " + strings.ReplaceAll(e.Err.Error(), "\n", "; ")
}

// Unwrap returns the reason.
func (e *LeftError) Unwrap() error { return e.Err }

// Tidier is a [Provider] that can retry to remove what sandboxes left. It may be
// called concurrently with everything else, and should be called periodically.
type Tidier interface {
	// Tidy removes what it can within a bounded time. The error names what is
	// left, with a [LeftError] for each sandbox.
	Tidy(ctx context.Context) error
}

// Process is a running command. The caller of Exec must call Wait.
type Process interface {
	// Stdin returns the command's input; closing it ends the input.
	Stdin() io.WriteCloser
	// Stdout returns the command's output. It must be read, or the command may block;
	// it can be read after Wait, until Close. The same applies to Stderr.
	Stdout() io.ReadCloser
	Stderr() io.ReadCloser
	// Wait returns when the command has ended, also if called again, with its exit
	// code (128 + signal number if a signal ended it), or with ctx's error.
	Wait(ctx context.Context) (int, error)
	// Kill ends the command at once; it has no effect on one that has ended.
	Kill() error
}

// Spec describes a sandbox to make.
type Spec struct {
	// ID names the sandbox: 1 to 96 of A-Z a-z 0-9 _ - and inner dots.
	// Required.
	ID string `json:"id"`
	// SessionID and Epoch identify the owner of the sandbox. SessionID is required.
	SessionID string `json:"sessionId"`
	Epoch     uint64 `json:"epoch"`
	// Labels are only stored and listed.
	Labels map[string]string `json:"labels,omitempty"`
	// Workspace is an existing folder of the user to be used in place, absolute.
	// Default: an empty folder of the sandbox. Providers that are not on the user's
	// machine refuse it.
	Workspace string `json:"workspace,omitempty"`
	// Shares is the id of another sandbox of the provider whose workspace is to be used in
	// place. Excludes Workspace. Default: none.
	Shares string `json:"shares,omitempty"`
}

// Validate returns an error for the first invalid field.
func (s Spec) Validate() error {
	if err := CheckID(s.ID); err != nil {
		return err
	}
	if s.SessionID == "" {
		return errors.New("sandbox: field \"sessionId\" is empty")
	}
	if s.Shares != "" && s.Workspace != "" {
		return errors.New("sandbox: fields \"shares\" and \"workspace\" exclude each other")
	}
	return nil
}

// CheckID refuses an invalid sandbox id.
func CheckID(id string) error {
	if !validID.MatchString(id) {
		return fmt.Errorf("sandbox: field \"id\" is %q, want 1 to 96 of A-Z a-z 0-9 _ - and inner dots", id)
	}
	return nil
}

var validID = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,95}$`)

// Command is one command line.
type Command struct {
	// Argv is program and arguments; a program without a slash is looked up
	// in the sandbox's PATH. Required.
	Argv []string
	// Dir is where it runs, absolute. Default: the workspace.
	Dir string
	// Env is added to the sandbox's environment and takes precedence over it.
	Env []string
}

// Status is a sandbox's lifecycle state.
type Status string

const (
	// StatusStarting: the sandbox is being made, or its creation was interrupted.
	StatusStarting Status = "starting"
	// StatusReady: it can take files and commands.
	StatusReady Status = "ready"
	// StatusUnhealthy: it exists, but its agent died without being stopped.
	StatusUnhealthy Status = "unhealthy"
	// StatusTerminated: it has ended.
	StatusTerminated Status = "terminated"
)

// State is a sandbox's state as clients see it.
type State struct {
	SandboxID string `json:"sandboxId"`
	Status    Status `json:"status"`
	// RestartCount is how often an agent was started in it after the first
	// time.
	RestartCount int `json:"restartCount"`
	// LastHealthCheck is the time of this state.
	LastHealthCheck time.Time `json:"lastHealthCheck,omitzero"`
}

// Info is everything that a provider knows about a sandbox.
type Info struct {
	State
	SessionID string `json:"sessionId"`
	Epoch     uint64 `json:"epoch"`
	// Shares as in Spec.
	Shares   string            `json:"shares,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Provider string            `json:"provider"`
	Created  time.Time         `json:"created,omitzero"`
	Paths    Paths             `json:"paths"`
	// Env is the environment of every command in the sandbox, NAME=value, and the one
	// that an agent's is built on; see [Environment]. It may hold secrets that the
	// user passes to agents: do not print it.
	Env []string `json:"-"`
	// Exit is nil until the sandbox is terminated, then its exit code.
	Exit *int `json:"exit"`
	// Message describes what is wrong with an unhealthy sandbox.
	Message string `json:"message,omitempty"`
}

// Paths are the sandbox's files and folders, as seen by a command in the sandbox.
type Paths struct {
	Home      string `json:"home"`
	Workspace string `json:"workspace"`
	Tmp       string `json:"tmp"`
	Control   string `json:"control"`
	// Socket is the path of the runner's control socket.
	Socket string `json:"socket"`
	// Runner is the runner program.
	Runner string `json:"runner"`
	// Hide lists folders that the agent must not see, Keep and KeepReadOnly what it
	// must see although it is below one of those. The runner enforces that if the
	// system allows.
	Hide         []string `json:"hide,omitempty"`
	Keep         []string `json:"keep,omitempty"`
	KeepReadOnly []string `json:"keepReadOnly,omitempty"`
	// Confine: nothing may run for the agent if the system does not allow that.
	Confine bool `json:"confine,omitempty"`
	// Network is what the agent may reach.
	Network Network `json:"network,omitzero"`
}

// Area is one of a sandbox's folders.
type Area string

const (
	AreaHome      Area = "home"
	AreaWorkspace Area = "workspace"
	AreaTmp       Area = "tmp"
	AreaControl   Area = "control"
)

// In returns the area's folder, or "" for an unknown area.
func (a Area) In(p Paths) string {
	switch a {
	case AreaHome:
		return p.Home
	case AreaWorkspace:
		return p.Workspace
	case AreaTmp:
		return p.Tmp
	case AreaControl:
		return p.Control
	}
	return ""
}
