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

// Patience bounds every wait of a test or benchmark. No result depends on it, so it is
// long enough for a busy machine.
const Patience = 3 * time.Minute

// Options of a stack.
type Options struct {
	// Root is the repository; default: the working folder.
	Root string
	// Name is the prefix of the temporary folder's name; default "sojourn".
	Name string
	// Keep keeps the temporary folder when the stack is closed.
	Keep bool
	// TemporalConfig are dynamic settings of the Temporal server, KEY=VALUE.
	TemporalConfig []string
}

// Stack is a running set of servers with clients for them, on free ports and in a
// temporary folder.
type Stack struct {
	// Bin has the programs of this repository, Agents those of the agents.
	Bin, Agents string
	// Dir is the temporary folder.
	Dir string
	// Env has the variables of the servers' env file.
	Env     map[string]string
	Servers *Process
	// Space is the namespace that the servers create at their start.
	*Space

	keep           bool
	temporalConfig []string
}

// Start starts the servers and the model and connects to them. It sets the variables of
// the env file in this process's environment, from which the AWS client reads them, so
// one process can have one stack only. After an error nothing is left running.
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
	s := &Stack{Bin: os.Getenv("SOJOURN_BIN"), Agents: filepath.Join(root, ".agents", "bin"), keep: o.Keep, temporalConfig: o.TemporalConfig}
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

// check returns an error if a program is missing.
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

// servers are the flags for the servers' ports and the variables that have the ports of
// the last start.
var servers = [][2]string{
	{"--temporal-port", "TEMPORAL_ADDRESS"}, {"--ui-port", "SOJOURN_UI_URL"}, {"--nats-port", "NATS_URL"}, {"--s3-port", "AWS_ENDPOINT_URL_S3"},
}

// collectLate is Go's GOGC for the servers: they have the memory, and tests the processors.
const collectLate = "400"

// startServers starts the servers, on free ports or on those of the last start.
func (s *Stack) startServers(ctx context.Context) (err error) {
	envFile := filepath.Join(s.Dir, "env")
	argv := []string{
		filepath.Join(s.Bin, "sojourn-devstack"), "--data-dir", filepath.Join(s.Dir, "devstack"), "--env-file", envFile,
		// How soon the servers notice a new namespace. They read all of them each time: with
		// the hundred that tests have made, five times a second took a tenth of a processor.
		"--temporal-config", "system.namespaceCacheRefreshInterval=1s",
	}
	for _, setting := range s.temporalConfig {
		argv = append(argv, "--temporal-config", setting)
	}
	for _, server := range servers {
		argv = append(argv, server[0], cmp.Or(portOf(s.Env[server[1]]), "0"))
	}
	if s.Servers, err = Spawn(ctx, Spec{Name: "devstack", ReadyFile: envFile, Dir: s.Dir, Argv: argv, Env: []string{"GOGC=" + collectLate}}); err != nil {
		return err
	}
	s.Env, err = ReadEnv(envFile)
	return err
}

// portOf returns the port at the end of an address or URL, "" for "".
func portOf(address string) string {
	return address[strings.LastIndex(address, ":")+1:]
}

// KillServers ends all servers at once with SIGKILL. RestartServers starts them again,
// on the same folder and ports.
func (s *Stack) KillServers() error {
	// Remove the ready file: it would report the next servers as ready.
	return errors.Join(s.Servers.Kill(), os.Remove(filepath.Join(s.Dir, "env")))
}

// RestartServers starts the servers that KillServers ended.
func (s *Stack) RestartServers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	return s.startServers(ctx)
}

// NATSAccess returns the credentials for the servers' NATS.
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
