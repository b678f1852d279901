package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/internal/modelsim"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// patience bounds every wait of a test; nothing is judged by it.
const patience = 90 * time.Second

// tick is how often a condition is looked at that has no signal of its own.
const tick = 20 * time.Millisecond

// stack is the set of servers that all tests of this package share.
type stack struct {
	bin, agents string
	dir         string
	env         map[string]string
	devstack    *process
	model       *modelsim.Server
	modelURL    string

	temporal client.Client
	log      *stream.Log
	archive  *archive.Archive
	client   *session.Client
}

var shared *stack

func TestMain(m *testing.M) {
	os.Exit(runAll(m))
}

func runAll(m *testing.M) (code int) {
	s, err := newStack()
	if s != nil {
		defer func() {
			if err := s.close(); err != nil {
				fmt.Fprintln(os.Stderr, "e2e: stop the stack:", err)
				code = 1
			}
		}()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	shared = s
	return m.Run()
}

func repository() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	return dir
}

func newStack() (*stack, error) {
	root := repository()
	s := &stack{bin: os.Getenv("SOJOURN_BIN"), agents: filepath.Join(root, ".agents", "node_modules", ".bin")}
	if s.bin == "" {
		s.bin = filepath.Join(root, "bin")
	}
	for _, p := range []string{"sojourn-devstack", "sojourn-worker", "sojourn-runner"} {
		if _, err := os.Stat(filepath.Join(s.bin, p)); err != nil {
			return nil, fmt.Errorf("%w (make build makes it)", err)
		}
	}
	if _, err := os.Stat(filepath.Join(s.agents, "claude")); err != nil {
		return nil, fmt.Errorf("%w (make agents installs it)", err)
	}
	var err error
	if s.dir, err = os.MkdirTemp("", "sojourn-e2e-"); err != nil {
		return nil, err
	}
	return s, s.start()
}

func (s *stack) start() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	envFile := filepath.Join(s.dir, "env")
	s.devstack, err = spawn(ctx, spawnSpec{
		name: "devstack", ready: envFile, dir: s.dir,
		argv: []string{filepath.Join(s.bin, "sojourn-devstack"), "--data-dir", filepath.Join(s.dir, "devstack"), "--env-file", envFile,
			"--temporal-port", "0", "--ui-port", "0", "--nats-port", "0", "--s3-port", "0"},
	})
	if err != nil {
		return err
	}
	if s.env, err = readEnv(envFile); err != nil {
		return err
	}
	s.model = modelsim.New(modelsim.Options{})
	if s.modelURL, err = s.model.Start(context.Background(), "127.0.0.1:0"); err != nil {
		return err
	}
	return s.connect(ctx)
}

func (s *stack) connect(ctx context.Context) (err error) {
	for k, v := range s.env {
		if err := os.Setenv(k, v); err != nil {
			return err
		}
	}
	if s.temporal, err = client.Dial(client.Options{HostPort: s.env["TEMPORAL_ADDRESS"], Logger: quiet{}}); err != nil {
		return err
	}
	if s.log, err = stream.Dial(ctx, s.env["NATS_URL"], stream.Options{}); err != nil {
		return err
	}
	if s.archive, err = archive.Open(ctx, archive.Options{Bucket: s.env["SOJOURN_BUCKET"]}); err != nil {
		return err
	}
	s.client, err = session.NewClient(session.ClientOptions{
		Temporal: s.temporal, Stream: s.log, Archive: s.archive, Agents: builtin.Registry(),
	})
	return err
}

func (s *stack) close() error {
	if s.temporal != nil {
		s.temporal.Close()
	}
	if s.log != nil {
		s.log.Close()
	}
	if s.model != nil {
		s.model.Close()
	}
	var err error
	if s.devstack != nil {
		err = s.devstack.stop()
	}
	if os.Getenv("SOJOURN_E2E_KEEP") == "" {
		return os.RemoveAll(s.dir)
	}
	return err
}

// quiet is a Temporal logger that says nothing.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

// worker is a worker process with a data folder of its own: a host.
type worker struct {
	*process
	dataDir string
}

// startWorker starts a worker and has it stopped, with its agents, when the
// test ends.
func startWorker(t *testing.T, extra ...string) *worker {
	t.Helper()
	dir, err := os.MkdirTemp(shared.dir, "host-")
	require.NoError(t, err)
	w := startWorkerIn(t, dir, extra...)
	t.Cleanup(func() { endAgents(t, dir) })
	return w
}

// startWorkerIn starts a worker on a data folder that may have had one before.
func startWorkerIn(t *testing.T, dir string, extra ...string) *worker {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	env := []string{
		"ANTHROPIC_BASE_URL=" + shared.modelURL, "ANTHROPIC_API_KEY=sk-scripted",
		"SOJOURN_PASS_ENV=ANTHROPIC_BASE_URL,ANTHROPIC_API_KEY", "SOJOURN_DATA_DIR=" + dir,
		"HOME=" + dir, "PATH=" + shared.agents + ":" + shared.bin + ":" + os.Getenv("PATH"),
	}
	for k, v := range shared.env {
		env = append(env, k+"="+v)
	}
	bin := os.Getenv("SOJOURN_WORKER_BIN")
	if bin == "" {
		bin = filepath.Join(shared.bin, "sojourn-worker")
	}
	p, err := spawn(ctx, spawnSpec{
		name: "worker", dir: dir, ready: "stdout:ready", env: append(env, extra...),
		argv: []string{bin, "--log-level", "warn"},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Errorf("stop worker: %v", err)
		}
		if t.Failed() {
			t.Logf("worker said:\n%s", p.said())
		}
	})
	return &worker{p, dir}
}

// process is a child of the tests.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error

	mu  sync.Mutex
	out bytes.Buffer
}

type spawnSpec struct {
	name string
	argv []string
	env  []string
	dir  string
	// ready is a file that appears, or "stdout:" and a text that is printed.
	ready string
}

func spawn(ctx context.Context, s spawnSpec) (*process, error) {
	p := &process{name: s.name, cmd: exec.Command(s.argv[0], s.argv[1:]...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = s.dir, append(os.Environ(), s.env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	read, write := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = write, write
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	seen := make(chan struct{})
	go p.read(read, strings.TrimPrefix(s.ready, "stdout:"), seen)
	go func() { p.err = p.cmd.Wait(); write.Close(); close(p.done) }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-seen:
			return p, nil
		case <-tick.C:
			if _, err := os.Stat(s.ready); err == nil {
				return p, nil
			}
		case <-p.done:
			return nil, fmt.Errorf("%s ended at once: %v\n%s", s.name, p.err, p.said())
		case <-ctx.Done():
			return nil, fmt.Errorf("%s was not ready in time\n%s", s.name, p.said())
		}
	}
}

func (p *process) read(r io.Reader, ready string, seen chan struct{}) {
	lines := bufio.NewReader(r)
	told := false
	for {
		line, err := lines.ReadString('\n')
		p.mu.Lock()
		p.out.WriteString(line)
		p.mu.Unlock()
		if !told && strings.Contains(line, ready) {
			told = true
			close(seen)
		}
		if err != nil {
			return
		}
	}
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// stop asks the process to end and waits; one that does not end is an error.
func (p *process) stop() error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("%s did not end when asked to\n%s", p.name, p.said())
	}
}

// kill ends the process with no chance to say goodbye.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// endAgents ends what a test's sessions left running on a host: tests that
// don't close their sessions leave warm agents, which is what they should do.
func endAgents(t *testing.T, dataDir string) {
	t.Helper()
	pids, err := supervisorsOf(dataDir)
	require.NoError(t, err)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// supervisorsOf finds the runner processes that belong to a data folder, by
// the variable that marks them.
func supervisorsOf(dataDir string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscan(e.Name(), &pid); err != nil {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err == nil && bytes.Contains(env, []byte("SOJOURN_SANDBOX="+dataDir)) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func readEnv(path string) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	env := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			env[name] = strings.Trim(value, `'"`)
		}
	}
	return env, nil
}
