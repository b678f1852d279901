// Package teststack runs the development stack for the tests of one package.
//
//	var servers teststack.Shared
//
//	func TestMain(m *testing.M) {
//		code := m.Run()
//		servers.Stop()
//		os.Exit(code)
//	}
//
//	func TestStore(t *testing.T) {
//		endpoint := servers.Get(t).Env["AWS_ENDPOINT_URL_S3"]
//	}
//
// Tests that need a stack are skipped if it is not built, and fail if it is built and
// does not start. Tests with workers and agents use package harness.
package teststack

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-run/sojourn/test/skip"
)

// Variable is the variable with the program's path; default: bin/sojourn-devstack of
// the repository.
const Variable = "SOJOURN_DEVSTACK_BIN"

// patience bounds the start of a stack.
const patience = 3 * time.Minute

// Program returns the path of the development stack. It skips the test if the stack is
// not built. If the variable names it, it must exist.
func Program(t testing.TB) string {
	t.Helper()
	if named := os.Getenv(Variable); named != "" {
		return named
	}
	program, err := built()
	if err != nil {
		skip.Without(t, "bin/sojourn-devstack: make build makes it")
	}
	return program
}

// built returns the program in the repository of the running test.
func built() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			program := filepath.Join(dir, "bin", "sojourn-devstack")
			_, err := os.Stat(program)
			return program, err
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = above
	}
}

// Stack is a running development stack.
type Stack struct {
	// Env has the settings of its env file, File is the file's path.
	Env  map[string]string
	File string

	cmd   *exec.Cmd
	ended chan struct{}
}

// Start starts a stack with its data and env file in dir, and returns when it is ready.
// Its loopback address depends on dir: a port of 127.0.0.1 may be taken by a connection
// before a server binds it. Its ports are free ones unless natsPort is not "". The
// error has the program and the last line of its output.
func Start(program, dir, natsPort string) (*Stack, error) {
	if natsPort == "" {
		natsPort = "0"
	}
	s := &Stack{File: filepath.Join(dir, "env"), ended: make(chan struct{})}
	if err := os.RemoveAll(s.File); err != nil {
		return nil, err // an older file would be taken for this stack's
	}
	said := new(tail)
	s.cmd = exec.Command(program, "--data-dir", filepath.Join(dir, "data"), "--env-file", s.File, "--ip", addressOf(dir),
		"--temporal-port", "0", "--ui-port", "0", "--nats-port", natsPort, "--s3-port", "0")
	s.cmd.Stdout, s.cmd.Stderr = said, said
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s does not start: %w", program, err)
	}
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // how it ended is in its state
	}()
	if err := s.wait(); err != nil {
		s.Stop(os.Kill)
		return nil, fmt.Errorf("%s does not start: %w: %s", program, err, said.last())
	}
	return s, nil
}

func addressOf(dir string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(dir)) // a hash accepts everything
	n := h.Sum32()
	return fmt.Sprintf("127.%d.%d.%d", 1+n%250, n>>8%250, 1+n>>16%250)
}

// wait returns once the env file exists, which is written when all servers answer.
func (s *Stack) wait() error {
	tick, late := time.NewTicker(20*time.Millisecond), time.NewTimer(patience)
	defer tick.Stop()
	defer late.Stop()
	for {
		if data, err := os.ReadFile(s.File); err == nil {
			if s.Env = settings(string(data)); s.Env["NATS_URL"] != "" && s.Env["AWS_ENDPOINT_URL_S3"] != "" {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-s.ended:
			return errors.New(s.cmd.ProcessState.String())
		case <-late.C:
			return fmt.Errorf("not ready after %s", patience)
		}
	}
}

// Stop sends the stack a signal and waits until it exits.
func (s *Stack) Stop(sig os.Signal) {
	_ = s.cmd.Process.Signal(sig) // not needed if it has ended
	<-s.ended
}

// settings parses the assignments of an env file.
func settings(text string) map[string]string {
	env := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, found := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if found {
			env[name] = strings.Trim(value, `'"`)
		}
	}
	return env
}

// Shared is the stack of all tests of a package. The first test that calls Get starts
// it. The zero value is ready for use.
type Shared struct {
	once  sync.Once
	dir   string
	stack *Stack
	err   error
}

// Get returns the running stack.
func (s *Shared) Get(t testing.TB) *Stack {
	t.Helper()
	program := Program(t)
	s.once.Do(func() {
		if s.dir, s.err = os.MkdirTemp("", "sojourn-test-"); s.err == nil {
			s.stack, s.err = Start(program, s.dir, "")
		}
	})
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.stack
}

// Stop ends the stack, if it was started, and removes its data. TestMain calls it.
func (s *Shared) Stop() {
	if s.stack != nil {
		s.stack.Stop(os.Interrupt)
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const keptTail = 4096

func (l *tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if over := len(l.text) - keptTail; over > 0 {
		l.text = append(l.text[:0], l.text[over:]...)
	}
	return len(p), nil
}

// last returns the last line.
func (l *tail) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := bytes.TrimSpace(l.text)
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}
