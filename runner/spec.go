package runner

import (
	"cmp"
	"fmt"
	"path/filepath"
	"time"

	"github.com/sojourn-run/sojourn/sandbox"
)

const (
	// TransportStdio is lines over the agent's stdin and stdout.
	TransportStdio = "stdio"
	// TransportHTTP is requests to a server that the agent's process runs,
	// and server-sent events from it; see [HTTPSpec].
	TransportHTTP = "http"
)

// DefaultIdleLease is how long an agent lives without a request from a worker:
// long enough for any restart of a worker, short enough that a host whose worker
// never returns gets its memory back.
const DefaultIdleLease = time.Hour

// MarkEnv is the variable by which a provider marks a sandbox's processes, so
// that it finds them again; it grants nothing.
const MarkEnv = "SOJOURN_SANDBOX"

// StartSpec is what `sojourn-runner start` reads from its stdin as one JSON
// value. The token is in no file, argument or environment.
type StartSpec struct {
	// Epoch is that of the starter; a lower one than this control folder has seen is
	// refused with [ErrEpoch].
	Epoch uint64 `json:"epoch"`
	// Token must be shown by every client. Required.
	Token string `json:"token"`
	// Argv is the agent's command line; a program without a slash is looked
	// up in the PATH of Env. Required.
	Argv []string `json:"argv"`
	// Env is the agent's whole environment, NAME=value; nothing is inherited
	// but [MarkEnv].
	Env []string `json:"env"`
	// Dir is where the agent runs, absolute. Required.
	Dir string `json:"dir"`
	// Control is the runner's own folder (spool, journal, lock, log),
	// absolute; made if absent, mode 0700. Required.
	Control string `json:"control"`
	// Socket is the control socket's path, absolute, at most 107 bytes; see
	// [SocketPath]. Required.
	Socket string `json:"socket"`
	// Transport is how to talk to the agent: "stdio", the default, or "http".
	Transport string `json:"transport,omitempty"`
	// HTTP is required with the transport "http", and unused with another.
	HTTP HTTPSpec `json:"http,omitzero"`
	// Helpers names programs beside the agent's own, in its folder, that its process
	// starts for itself and keeps: no sweep ends one. A process is a helper if it is
	// a direct child of the agent's and runs that very file; its name and arguments
	// don't matter, and its children are not helpers. Default: none.
	Helpers []string `json:"helpers,omitempty"`
	// Isolation is how the agent is isolated.
	Isolation IsolationSpec `json:"isolation,omitzero"`
	// Grace is how long a stop waits between its steps.
	Grace Grace `json:"grace,omitzero"`
	// Linger is how long the supervisor answers clients after the agent has exited by
	// itself and the last connection has ended. Nanoseconds. Default: 10 minutes.
	Linger time.Duration `json:"linger,omitempty"`
	// IdleLease is how long the agent lives without a request from any client,
	// while no [Conn.Lease] is armed; then it is stopped, and the supervisor ends.
	// Nanoseconds. Default: [DefaultIdleLease].
	IdleLease time.Duration `json:"idleLease,omitempty"`
	// SegmentBytes is the size at which the spool starts a new file. Default: 16 MiB.
	SegmentBytes int64 `json:"segmentBytes,omitempty"`
	// MaxLine is how many bytes of a line of the agent are kept; a longer one is
	// cut while it is read, and its record has its length and hash. Default:
	// [jsonl.DefaultMaxLine].
	MaxLine int `json:"maxLine,omitempty"`
	// SpoolFrom is the highest offset that the starter knows of. A spool that ends
	// before it has lost its end, and continues there: no offset is assigned twice.
	// Default: 0.
	SpoolFrom int64 `json:"spoolFrom,omitempty"`
	// Tools lets the agent's processes call Sojourn's tools; see [Conn.ToolCalls]. Default:
	// they can't.
	Tools ToolsSpec `json:"tools,omitzero"`
	// Tag is only stored and shown in the status.
	Tag map[string]string `json:"tag,omitempty"`
}

// IsolationMode is whether namespaces are used.
type IsolationMode string

const (
	// IsolationAuto uses namespaces where the system allows. The default.
	IsolationAuto IsolationMode = "auto"
	// IsolationRequire fails the start if the system does not allow them.
	IsolationRequire IsolationMode = "require"
	// IsolationNone uses none.
	IsolationNone IsolationMode = "none"
)

// IsolationSpec is what the agent may not see.
type IsolationSpec struct {
	// Mode: default auto.
	Mode IsolationMode `json:"mode,omitempty"`
	// Hide lists files and folders that the agent sees as empty.
	Hide []string `json:"hide,omitempty"`
	// Keep lists files and folders below those that it does see, for writing, by
	// paths without symbolic links; KeepReadOnly likewise for reading, by any path.
	// Missing paths are skipped. The agent's own program is kept for reading in any
	// case.
	Keep         []string `json:"keep,omitempty"`
	KeepReadOnly []string `json:"keepReadOnly,omitempty"`
	// Programs are further programs, by absolute paths, that the agent's own starts;
	// they are kept for reading like that one. If there are any, direct children of
	// the agent's process count as the agent: no sweep ends them.
	Programs []string `json:"programs,omitempty"`
	// Network is what the agent may reach. If it is guarded the agent is never
	// started without a network namespace, whatever Mode is.
	Network sandbox.Network `json:"network,omitzero"`
}

// Grace is how long a stop waits. Nanoseconds; negative means not at all.
type Grace struct {
	// Stdin is from closing the agent's input to SIGTERM. Default: 5 s. With
	// the transport "http" there is no such step.
	Stdin time.Duration `json:"stdin,omitempty"`
	// Term is from SIGTERM to SIGKILL. Default: 5 s.
	Term time.Duration `json:"term,omitempty"`
}

// Or returns g with zero fields set from d.
func (g Grace) Or(d Grace) Grace {
	if g.Stdin == 0 {
		g.Stdin = d.Stdin
	}
	if g.Term == 0 {
		g.Term = d.Term
	}
	return g
}

// WithDefaults returns s with zero fields set to their defaults.
func (s StartSpec) WithDefaults() StartSpec {
	if s.Transport == "" {
		s.Transport = TransportStdio
	}
	if s.Isolation.Mode == "" {
		s.Isolation.Mode = IsolationAuto
	}
	s.Grace = s.Grace.Or(Grace{Stdin: 5 * time.Second, Term: 5 * time.Second})
	if s.Transport == TransportHTTP && s.HTTP.RequestTimeout == 0 {
		s.HTTP.RequestTimeout = time.Minute
	}
	if s.IdleLease == 0 {
		s.IdleLease = DefaultIdleLease
	}
	if s.Linger == 0 {
		s.Linger = 10 * time.Minute
	}
	if s.SegmentBytes <= 0 {
		s.SegmentBytes = 16 << 20
	}
	return s
}

// Validate returns an error for the first invalid field; call it on a spec with
// defaults.
func (s StartSpec) Validate() error {
	for _, f := range []struct{ name, path string }{
		{"dir", s.Dir}, {"control", s.Control}, {"socket", s.Socket}, {"tools.socket", cmp.Or(s.Tools.Socket, "/")}, {"tools.program", cmp.Or(s.Tools.Program, "/")},
	} {
		if !filepath.IsAbs(f.path) {
			return fmt.Errorf("start: field %q is %q, want an absolute path", f.name, f.path)
		}
	}
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		return fmt.Errorf("start: field \"argv\" is empty")
	}
	if s.IdleLease < 0 {
		return fmt.Errorf("start: field \"idleLease\" is %v, want a positive duration", s.IdleLease)
	}
	if s.Token == "" {
		return fmt.Errorf("start: field \"token\" is empty")
	}
	for _, name := range s.Helpers {
		if name == "" || name != filepath.Base(name) || name == "." || name == ".." {
			return fmt.Errorf("start: field \"helpers\" has %q, want the name of a program", name)
		}
	}
	if err := s.validateTransport(); err != nil {
		return err
	}
	if err := s.Isolation.check(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	return cmp.Or(CheckSocketPath(s.Socket), CheckSocketPath(s.Tools.Socket))
}

// check returns an error for the first invalid field.
func (s IsolationSpec) check() error {
	if err := s.Mode.check(); err != nil {
		return err
	}
	if err := s.Network.Validate(); err != nil {
		return fmt.Errorf("isolation: %w", err)
	}
	if s.Network.Guarded() && s.Mode == IsolationNone {
		return fmt.Errorf("field \"isolation.network.mode\" is %s, which needs namespaces, and field \"isolation.mode\" is none", s.Network.Mode)
	}
	return nil
}

// check refuses an unknown mode; empty is the default.
func (m IsolationMode) check() error {
	switch m {
	case "", IsolationAuto, IsolationRequire, IsolationNone:
		return nil
	}
	return fmt.Errorf("field \"isolation.mode\" is %q, want auto, require or none", m)
}

func (s StartSpec) validateTransport() error {
	switch s.Transport {
	case TransportStdio:
		return nil
	case TransportHTTP:
		if err := s.HTTP.validate(); err != nil {
			return fmt.Errorf("start: %w, while field \"transport\" is %q", err, s.Transport)
		}
		return nil
	}
	return fmt.Errorf("start: field \"transport\" is %q, want %q or %q", s.Transport, TransportStdio, TransportHTTP)
}

// AgentState is whether the agent process lives.
type AgentState string

const (
	AgentRunning AgentState = "running"
	AgentExited  AgentState = "exited"
)

// Status is the state of the runner and its agent. It is also the one line that
// `sojourn-runner start` and `status` print.
type Status struct {
	State AgentState `json:"state"`
	// ExitCode is nil while the agent is alive; then its exit code, or 128
	// plus the signal's number.
	ExitCode *int `json:"exitCode"`
	// Signal names what killed it, such as "killed"; else empty.
	Signal string `json:"signal,omitempty"`
	// Epoch is the highest one seen.
	Epoch uint64 `json:"epoch"`
	// RestartCount is 0 for the first agent process in this control folder.
	RestartCount int       `json:"restartCount"`
	Started      time.Time `json:"started,omitzero"`
	Exited       time.Time `json:"exited,omitzero"`
	// Pid and Supervisor are process ids as the supervisor sees them.
	Pid        int    `json:"pid"`
	Supervisor int    `json:"supervisor"`
	Socket     string `json:"socket"`
	// SpoolFirst and SpoolEnd bound the offsets that can be read.
	SpoolFirst int64 `json:"spoolFirst"`
	SpoolEnd   int64 `json:"spoolEnd"`
	// StartOffset is where this agent process's records begin.
	StartOffset int64     `json:"startOffset"`
	Isolation   Isolation `json:"isolation"`
	// LeaseUntil is when the supervisor ends everything unless the lease is renewed;
	// zero if no lease is armed.
	LeaseUntil time.Time `json:"leaseUntil,omitzero"`
	// IdleUntil is when the supervisor stops the agent unless a client makes a
	// request; zero while a lease is armed or when the agent has exited.
	IdleUntil time.Time `json:"idleUntil,omitzero"`
	// Fault is the reason why the runner itself ended the agent, such as a full disk.
	Fault string `json:"fault,omitempty"`
	// Damage names what of the control folder could not be read when this agent
	// process was started; the runner continues without it.
	Damage []string          `json:"damage,omitempty"`
	Tag    map[string]string `json:"tag,omitempty"`
	// Protocol is the version that the runner speaks, ProtocolFrom the oldest one
	// that it understands; 0 if the runner predates versions.
	Protocol     int `json:"protocol,omitempty"`
	ProtocolFrom int `json:"protocolFrom,omitempty"`
}

// Isolation is how an agent is actually isolated.
type Isolation struct {
	// PID means that it has its own PID namespace and /proc, so that whatever it
	// starts ends with it and it sees no other process.
	PID bool `json:"pid"`
	// Mount means that it does not see hidden folders.
	Mount bool `json:"mount"`
	// User means that this was done by a user namespace, without root.
	User bool `json:"user"`
	// Reason is why the rest is missing.
	Reason string `json:"reason,omitempty"`
	// Network reports whether the agent has a network namespace with one guarded way
	// out; NetworkReason is why it has none.
	Network       bool   `json:"network,omitempty"`
	NetworkReason string `json:"networkReason,omitempty"`
}

// Process is one process below the agent.
type Process struct {
	// Pid and PPid are ids as the supervisor sees them.
	Pid  int    `json:"pid"`
	PPid int    `json:"ppid"`
	Comm string `json:"comm"`
	// Start is the kernel's start time in clock ticks since boot; with Pid it
	// distinguishes a process from a later one of the same id.
	Start uint64 `json:"start"`
	// State is the kernel's letter: R, S, D, Z, T, …
	State string `json:"state"`
	// Detached reports whether it is in another kernel session than the agent, as the
	// commands of agents' tools are.
	Detached bool `json:"detached,omitempty"`
}

// Mark is a snapshot of the processes below the agent, for a later Sweep. It is
// plain data and may be stored.
type Mark struct {
	Processes []Process `json:"processes"`
}

// Swept is the result of a Sweep.
type Swept struct {
	Killed []Process `json:"killed,omitempty"`
	// Left are processes that did not die in time.
	Left []Process `json:"left,omitempty"`
}

// Ack is the runner's answer to an input.
type Ack struct {
	// Duplicate means that the id was known, so nothing was written now.
	Duplicate bool `json:"duplicate,omitempty"`
	// Gone means that it was passed to a former agent process.
	Gone bool `json:"gone,omitempty"`
	// Offset is the position of the input's first record in the spool, Next the
	// offset after its last.
	Offset int64 `json:"offset"`
	Next   int64 `json:"next"`
}
