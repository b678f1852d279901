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
	// ErrNotFound means that no sandbox has the id: never made, or terminated.
	ErrNotFound = errors.New("no such sandbox")
	// ErrExists means that there is a sandbox with the id already; Open it.
	ErrExists = errors.New("sandbox exists already")
	// ErrTerminated means that the sandbox ended under the caller's hands.
	ErrTerminated = errors.New("sandbox is terminated")
	// ErrEscape means that a path or a symlink leads out of its area.
	ErrEscape = errors.New("path leads out of the sandbox")
	// ErrLimit means that a copy went over a limit of size or count.
	ErrLimit = errors.New("copy is over the limit")
)

// WorkspaceError is returned by [Provider.Create] for a Workspace that the
// provider refuses. Another try helps only after the folder has changed.
type WorkspaceError struct {
	// Dir is the folder as the Spec names it.
	Dir string
	// Reason is what is wrong with it, Want what would be right.
	Reason, Want string
}

// Error names the field, the folder, the reason and what would be right.
func (e *WorkspaceError) Error() string {
	return fmt.Sprintf("sandbox: field \"workspace\": %s %s; want %s", e.Dir, e.Reason, e.Want)
}

// Provider makes and finds sandboxes. All methods may be called concurrently.
type Provider interface {
	// Name is the provider's, as in Info.Provider.
	Name() string
	// Create makes a sandbox with empty areas and returns it when it is ready
	// to take files and commands. Errors: [ErrExists], [*WorkspaceError], or a
	// bad field of the Spec by name; after an error nothing is left behind.
	Create(ctx context.Context, spec Spec) (Sandbox, error)
	// Open finds a sandbox that Create made, also from another process and
	// after a restart. Error: [ErrNotFound].
	Open(ctx context.Context, id string) (Sandbox, error)
	// List returns every sandbox of the provider that is not terminated, also
	// half-made ones (status starting), by id. It is what a reconciler holds
	// against the open sessions.
	List(ctx context.Context) ([]Info, error)
}

// Sandbox is one place to run one session's agent. All methods may be called
// concurrently; the value is a handle that owns nothing: dropping it leaves
// the sandbox standing.
type Sandbox interface {
	// ID is the id that the sandbox was created with.
	ID() string
	// Info looks at the sandbox now. After Terminate it answers with status
	// terminated and an exit code instead of an error.
	Info(ctx context.Context) (Info, error)
	// Exec starts a command. The process is killed when ctx ends; what it
	// has detached from itself (such as the runner's supervisor) continues.
	// Errors: [ErrTerminated], or the program cannot be started.
	Exec(ctx context.Context, cmd Command) (Process, error)
	// CopyIn writes files into an area: folders are made as needed, standing
	// files replaced in one step, so that a death leaves the old one or the new
	// one; symlinks are made last and only if they stay inside. A bad file is
	// skipped and named in the returned error ([ErrEscape] and the like,
	// joined); the good ones stay. An error of the sequence, of ctx, or
	// [ErrLimit] ends the copy.
	CopyIn(ctx context.Context, area Area, files iter.Seq2[File, error]) error
	// CopyOut reads what the selection names, folders before what is in them,
	// by path. Files that vanish meanwhile are left out. A File's Body is
	// valid until the next step of the sequence and need not be read. An
	// error ends the sequence.
	CopyOut(ctx context.Context, sel Selection) iter.Seq2[File, error]
	// Terminate ends every process in the sandbox and removes its areas (not
	// a workspace that is the user's own folder). It may be called again. With a
	// [LeftError] the sandbox has ended all the same.
	Terminate(ctx context.Context) error
}

// LeftError means that a sandbox has ended, its id is free and no process of it
// is left, but some of its files could not be removed yet: the agent protected
// them, or there are very many. A [Tidier] tries again.
type LeftError struct {
	// Path is where the files are.
	Path string
	// Err names what could not be removed, and why.
	Err error
}

// Error is one line.
func (e *LeftError) Error() string {
	return "not removed yet: " + strings.ReplaceAll(e.Err.Error(), "\n", "; ")
}

// Unwrap returns why.
func (e *LeftError) Unwrap() error { return e.Err }

// Tidier is a [Provider] that can try again to remove what sandboxes left. It
// may be called concurrently with everything else, and now and then should be.
type Tidier interface {
	// Tidy removes what it can within a bounded time. The error names what is
	// left, with a [LeftError] for each sandbox.
	Tidy(ctx context.Context) error
}

// Process is a running command. The caller of Exec must call Wait.
type Process interface {
	// Stdin is the command's input; Close ends it.
	Stdin() io.WriteCloser
	// Stdout must be read, or the command may block; it stays readable after
	// Wait, until Close. Stderr likewise.
	Stdout() io.ReadCloser
	Stderr() io.ReadCloser
	// Wait returns when the command has ended, once or often, with its exit
	// code (128 + signal number if a signal ended it), or with ctx's error.
	Wait(ctx context.Context) (int, error)
	// Kill ends the command at once; it is harmless on one that has ended.
	Kill() error
}

// Spec is what a sandbox is made from.
type Spec struct {
	// ID names the sandbox: 1 to 96 of A-Z a-z 0-9 _ - and inner dots.
	// Required.
	ID string `json:"id"`
	// SessionID and Epoch say who owns the sandbox. SessionID is required.
	SessionID string `json:"sessionId"`
	Epoch     uint64 `json:"epoch"`
	// Labels are kept and listed, nothing else.
	Labels map[string]string `json:"labels,omitempty"`
	// Workspace is a folder of the user's to be used in place, absolute and
	// standing. Default: an empty folder of the sandbox's own. Providers that
	// are not on the user's machine refuse it.
	Workspace string `json:"workspace,omitempty"`
}

// Validate names the first field that is wrong.
func (s Spec) Validate() error {
	if err := CheckID(s.ID); err != nil {
		return err
	}
	if s.SessionID == "" {
		return errors.New("sandbox: field \"sessionId\" is empty")
	}
	return nil
}

// CheckID refuses what cannot name a sandbox.
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
	// Env is added to the sandbox's environment and wins over it.
	Env []string
}

// Status is a sandbox's state of life.
type Status string

const (
	// StatusStarting is a sandbox that is being made, or whose making was cut
	// short.
	StatusStarting Status = "starting"
	// StatusReady can take files and commands.
	StatusReady Status = "ready"
	// StatusUnhealthy stands, but what ran in it died without being stopped.
	StatusUnhealthy Status = "unhealthy"
	// StatusTerminated is gone.
	StatusTerminated Status = "terminated"
)

// State is a sandbox's state as clients see it.
type State struct {
	SandboxID string `json:"sandboxId"`
	Status    Status `json:"status"`
	// RestartCount is how often an agent was started in it after the first
	// time.
	RestartCount int `json:"restartCount"`
	// LastHealthCheck is when this was found out.
	LastHealthCheck time.Time `json:"lastHealthCheck,omitzero"`
}

// Info is everything that a provider knows about a sandbox.
type Info struct {
	State
	SessionID string            `json:"sessionId"`
	Epoch     uint64            `json:"epoch"`
	Labels    map[string]string `json:"labels,omitempty"`
	Provider  string            `json:"provider"`
	Created   time.Time         `json:"created,omitzero"`
	Paths     Paths             `json:"paths"`
	// Env is the environment of every command in the sandbox, NAME=value, and
	// the one that an agent's is built on; see [Environment]. It may hold
	// secrets that the user passes to agents: it is not for printing.
	Env []string `json:"-"`
	// Exit is nil while the sandbox lives, and its exit code once it is
	// terminated.
	Exit *int `json:"exit"`
	// Message says in words what is wrong with an unhealthy sandbox.
	Message string `json:"message,omitempty"`
}

// Paths are the sandbox's files and folders, as seen by a command in the sandbox.
type Paths struct {
	Home      string `json:"home"`
	Workspace string `json:"workspace"`
	Tmp       string `json:"tmp"`
	Control   string `json:"control"`
	// Socket is where the runner's control socket belongs.
	Socket string `json:"socket"`
	// Runner is the runner program.
	Runner string `json:"runner"`
	// Hide lists folders that the agent must not see, Keep and KeepReadOnly
	// what it must see although it is below one of those. The runner makes
	// it so where the system allows.
	Hide         []string `json:"hide,omitempty"`
	Keep         []string `json:"keep,omitempty"`
	KeepReadOnly []string `json:"keepReadOnly,omitempty"`
	// Confine: nothing may run for the agent where the system does not allow
	// that.
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

// In is where the area is, or "" for an unknown area.
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
