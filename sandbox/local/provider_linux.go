package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/host"
	"github.com/sojourn-run/sojourn/sandbox"
)

// newPrefix marks sandboxes that are being made, gonePrefix those that are
// being removed; no id begins with a dot.
const (
	newPrefix  = ".new-"
	gonePrefix = ".gone-"
)

// stale is the age from which a half-made folder is considered abandoned by a
// process that died.
const stale = 10 * time.Minute

// Provider makes sandboxes below one data folder. It may be used
// concurrently, also by several processes at once.
type Provider struct {
	dataDir   string
	runner    string
	env       []string
	options   Options
	isolation runner.Isolation
	network   sandbox.Network

	mu sync.Mutex
	// removing are the folders that are being removed.
	removing map[string]bool
	// forgotten are the ended sandboxes whose folders could not be moved.
	forgotten map[string]bool
}

var (
	_ sandbox.Provider = (*Provider)(nil)
	_ sandbox.Tidier   = (*Provider)(nil)
)

// New checks the options, and finds out how agents can be isolated on this
// machine. Errors name the field, or are [ErrUnconfined] or [ErrUnguarded]. What
// an agent left in the data folder is not an error: it is removed, listed as
// unhealthy, or left to [Provider.Tidy].
func New(ctx context.Context, o Options) (*Provider, error) {
	o = o.withDefaults()
	p := &Provider{options: o, removing: map[string]bool{}, forgotten: map[string]bool{}}
	var err error
	if p.dataDir, err = dataFolder(o.DataDir); err != nil {
		return nil, fmt.Errorf("sandbox local: field DataDir: %w", err)
	}
	if p.runner, err = findRunner(o.Runner); err != nil {
		return nil, fmt.Errorf("sandbox local: field Runner: %w", err)
	}
	if p.env, err = sandbox.Environment(o.Getenv, o.PassEnv); err != nil {
		return nil, fmt.Errorf("sandbox local: field PassEnv: %w", err)
	}
	if p.isolation, err = host.Probe(ctx, p.runner); err != nil {
		return nil, fmt.Errorf("sandbox local: %w", err)
	}
	if !p.confines() && !o.UnsafeLocal {
		return nil, fmt.Errorf("sandbox local: %w: %s", ErrUnconfined, p.isolation.Reason)
	}
	if p.network, err = p.guard(); err != nil {
		return nil, fmt.Errorf("sandbox local: %w", err)
	}
	_ = p.Tidy(ctx) // the next one names what is left
	return p, nil
}

// guard returns what agents may reach on this machine.
func (p *Provider) guard() (sandbox.Network, error) {
	n := p.options.Network
	if err := n.Validate(); err != nil {
		return n, err
	}
	switch {
	case n.Mode == sandbox.NetworkHost:
		return sandbox.Network{}, nil
	case p.isolation.Network:
		n.Mode = sandbox.NetworkGuarded
	case n.Mode == sandbox.NetworkGuarded:
		return n, fmt.Errorf("%w: %s", ErrUnguarded, p.networkReason())
	default:
		return sandbox.Network{}, nil
	}
	n.Allow = slices.Clone(n.Allow)
	for _, name := range p.options.PassEnv {
		if hostPort, ok := sandbox.HostPort(p.options.Getenv(strings.TrimSpace(name))); ok {
			n.Allow = append(n.Allow, hostPort)
		}
	}
	return n, nil
}

func (p *Provider) networkReason() string {
	return cmp.Or(p.isolation.NetworkReason, p.isolation.Reason)
}

func dataFolder(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("it is empty")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Join(dir, "sandboxes"), 0o700); err != nil {
		return "", err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	_, err = runner.SocketPath(dir, "")
	return dir, err
}

func findRunner(given string) (string, error) {
	const program = "sojourn-runner"
	if given == "" {
		if self, err := os.Executable(); err == nil {
			beside := filepath.Join(filepath.Dir(self), program)
			if _, err := os.Stat(beside); err == nil {
				return beside, nil
			}
		}
		given = program
	}
	found, err := exec.LookPath(given)
	if err != nil {
		return "", fmt.Errorf("program %s is not there (make build makes it): %w", given, err)
	}
	return filepath.Abs(found)
}

func (p *Provider) root() string { return filepath.Join(p.dataDir, "sandboxes") }

// Isolation returns how agents are isolated on this machine.
func (p *Provider) Isolation() runner.Isolation { return p.isolation }

// Notice returns what an operator must know at start: empty if namespaces hide
// the worker's processes and files from agents.
func (p *Provider) Notice() string {
	if p.confines() {
		return ""
	}
	return "local sandboxes are no security boundary on this machine: agents can see this user's files and processes (" + p.isolation.Reason + ")"
}

// NetworkNotice returns what an operator must know of the network at start: empty
// if agents don't reach the services of this machine, or if that is configured.
func (p *Provider) NetworkNotice() string {
	if p.network.Guarded() || p.options.Network.Mode == sandbox.NetworkHost {
		return ""
	}
	return "agents have this machine's network and reach whatever listens on it: " + p.networkReason()
}

func (p *Provider) confines() bool { return p.isolation.PID && p.isolation.Mount }

// Runner returns the runner program that sandboxes use.
func (p *Provider) Runner() string { return p.runner }

// record is the file sandbox.json.
type record struct {
	sandbox.Spec
	Created time.Time `json:"created"`
}

// Create makes a sandbox; see [sandbox.Provider]. It is visible only when it is
// complete.
func (p *Provider) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if err := p.resolveWorkspace(&spec); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp(p.root(), newPrefix)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: create: %w", spec.ID, err)
	}
	r := record{Spec: spec, Created: time.Now().UTC()}
	if err := p.fill(tmp, r); err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox %s: create: %w", spec.ID, err), p.destroy(context.WithoutCancel(ctx), tmp))
	}
	return &box{provider: p, record: r}, nil
}

func (p *Provider) fill(tmp string, r record) error {
	for _, area := range []string{"home", "workspace", "tmp", "control"} {
		if err := os.Mkdir(filepath.Join(tmp, area), 0o700); err != nil {
			return err
		}
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tmp, "sandbox.json"), b, 0o600); err != nil {
		return err
	}
	err = os.Rename(tmp, p.folder(r.ID))
	if errors.Is(err, fs.ErrExist) {
		return sandbox.ErrExists
	}
	return err
}

func (p *Provider) folder(id string) string { return filepath.Join(p.root(), id) }

// Open finds a sandbox; see [sandbox.Provider].
func (p *Provider) Open(_ context.Context, id string) (sandbox.Sandbox, error) {
	if err := sandbox.CheckID(id); err != nil {
		return nil, err
	}
	b, err := p.open(id)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (p *Provider) open(id string) (*box, error) {
	raw, err := p.readRecord(id)
	if errors.Is(err, fs.ErrNotExist) || p.isForgotten(id) {
		return nil, fmt.Errorf("sandbox %s: %w", id, sandbox.ErrNotFound)
	}
	b := &box{provider: p}
	if err == nil {
		err = json.Unmarshal(raw, &b.record)
	}
	if err == nil && b.record.ID != id {
		err = fmt.Errorf("it has the id %q", b.record.ID)
	}
	if err != nil {
		// It can still be ended.
		b.record = record{Spec: sandbox.Spec{ID: id}}
		b.damage = fmt.Errorf("its record is damaged: %w", err)
	}
	return b, nil
}

// readRecord reads a sandbox's record, also in a folder that was made unreadable.
func (p *Provider) readRecord(id string) ([]byte, error) {
	name := filepath.Join(p.folder(id), "sandbox.json")
	raw, err := os.ReadFile(name)
	if !forbidden(err) {
		return raw, err
	}
	root, err := os.Open(p.root())
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := unlockAt(root, id, 0o700); err != nil {
		return nil, err
	}
	return os.ReadFile(name)
}

// Name returns "local".
func (p *Provider) Name() string { return "local" }

// List returns every sandbox; see [sandbox.Provider].
func (p *Provider) List(ctx context.Context) ([]sandbox.Info, error) {
	entries, err := os.ReadDir(p.root())
	if err != nil {
		return nil, fmt.Errorf("sandbox local: list: %w", err)
	}
	var out []sandbox.Info
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		b, err := p.open(e.Name())
		if errors.Is(err, sandbox.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("sandbox local: list: %w", err)
		}
		info, err := b.Info(ctx)
		if err != nil {
			return nil, fmt.Errorf("sandbox local: list: %w", err)
		}
		if info.Exit == nil {
			out = append(out, info)
		}
	}
	return out, nil
}
