package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/stream"
)

// Patience bounds every wait of a test or benchmark; nothing is judged by it, so
// it is long enough for a machine that is busy with other things.
const Patience = 3 * time.Minute

// Options say where a stack finds its programs.
type Options struct {
	// Root is the repository; default: the working folder.
	Root string
	// Name begins the temporary folder's name; default "sojourn".
	Name string
	// Keep leaves the temporary folder when the stack is closed.
	Keep bool
}

// Stack is a running set of servers with clients of them, on free ports and
// in a temporary folder.
type Stack struct {
	// Bin holds our programs, Agents the agents'.
	Bin, Agents string
	// Dir is the temporary folder.
	Dir string
	// Env is what the servers' env file says.
	Env     map[string]string
	Servers *Process
	// Space is the namespace that the servers have from the start.
	*Space

	keep bool
}

// Start starts servers and model and connects to them. It sets this process's
// environment to what the env file says, as the AWS client reads it from
// there: one process holds one stack. After an error nothing is left.
func Start(ctx context.Context, o Options) (*Stack, error) {
	s, err := newStack(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func newStack(o Options) (*Stack, error) {
	root, err := filepath.Abs(o.Root)
	if err != nil {
		return nil, fmt.Errorf("field Root: %w", err)
	}
	s := &Stack{Bin: os.Getenv("SOJOURN_BIN"), Agents: filepath.Join(root, ".agents", "bin"), keep: o.Keep}
	if s.Bin == "" {
		s.Bin = filepath.Join(root, "bin")
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = "sojourn"
	}
	s.Dir, err = os.MkdirTemp("", o.Name+"-")
	return s, err
}

// check says what is missing before anything is started.
func (s *Stack) check() error {
	for _, p := range []string{"sojourn-devstack", "sojourn-worker", "sojourn-runner"} {
		if _, err := os.Stat(filepath.Join(s.Bin, p)); err != nil {
			return fmt.Errorf("%w (make build makes it)", err)
		}
	}
	if _, err := os.Stat(filepath.Join(s.Agents, "claude")); err != nil {
		return fmt.Errorf("%w (make agents installs it)", err)
	}
	return nil
}

func (s *Stack) start(ctx context.Context) (err error) {
	if err := s.startServers(ctx); err != nil {
		return err
	}
	for k, v := range s.Env {
		if err := os.Setenv(k, v); err != nil {
			return err
		}
	}
	s.Space, err = s.connect(ctx, s.Env["TEMPORAL_NAMESPACE"])
	return err
}

// servers are the flags of the servers' ports and the variables that say which
// ports they had.
var servers = [][2]string{
	{"--temporal-port", "TEMPORAL_ADDRESS"}, {"--ui-port", "SOJOURN_UI_URL"}, {"--nats-port", "NATS_URL"}, {"--s3-port", "AWS_ENDPOINT_URL_S3"},
}

// startServers starts the servers: on free ports, or on those that they had
// before.
func (s *Stack) startServers(ctx context.Context) (err error) {
	envFile := filepath.Join(s.Dir, "env")
	argv := []string{
		filepath.Join(s.Bin, "sojourn-devstack"), "--data-dir", filepath.Join(s.Dir, "devstack"), "--env-file", envFile,
		// How soon the servers know of a new namespace.
		"--temporal-config", "system.namespaceCacheRefreshInterval=200ms",
	}
	for _, server := range servers {
		argv = append(argv, server[0], cmp.Or(portOf(s.Env[server[1]]), "0"))
	}
	if s.Servers, err = Spawn(ctx, Spec{Name: "devstack", ReadyFile: envFile, Dir: s.Dir, Argv: argv}); err != nil {
		return err
	}
	s.Env, err = ReadEnv(envFile)
	return err
}

// portOf is the port at the end of an address or URL, "" of "".
func portOf(address string) string {
	return address[strings.LastIndex(address, ":")+1:]
}

// KillServers ends all servers at once with SIGKILL; RestartServers brings them
// back, on the same folder and ports.
func (s *Stack) KillServers() error {
	// What says that they are ready would say so of the next ones.
	return errors.Join(s.Servers.Kill(), os.Remove(filepath.Join(s.Dir, "env")))
}

// RestartServers starts what KillServers ended.
func (s *Stack) RestartServers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	return s.startServers(ctx)
}

// NATSAccess is what the servers' NATS asks for.
func (s *Stack) NATSAccess() stream.Access {
	return stream.AccessFrom(func(name string) string { return s.Env[name] })
}

// Close ends the servers and the model, and removes the folder.
func (s *Stack) Close() error {
	if s.Space != nil {
		s.Space.Close()
	}
	var err error
	if s.Servers != nil {
		err = s.Servers.Stop()
	}
	if s.keep {
		return err
	}
	return errors.Join(err, os.RemoveAll(s.Dir))
}

// ReadEnv reads a file of NAME='value' lines.
func ReadEnv(path string) (map[string]string, error) {
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
