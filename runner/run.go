package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"

	"github.com/sojourn-run/sojourn/sandbox"
)

// RunSpec is what `sojourn-runner run` reads from its stdin as one JSON value: a
// command that runs to its end, without input, isolated like an agent.
type RunSpec struct {
	// Argv is the command line; a program without a slash is looked up in the
	// PATH of Env. Required.
	Argv []string `json:"argv"`
	// Env is the command's whole environment, NAME=value.
	Env []string `json:"env"`
	// Dir is where it runs, absolute. Required.
	Dir string `json:"dir"`
	// Isolation is that of the agent; Programs is not used.
	Isolation IsolationSpec `json:"isolation,omitzero"`
}

// Validate returns an error for the first invalid field.
func (s RunSpec) Validate() error {
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		return fmt.Errorf("run: field \"argv\" is empty")
	}
	if !filepath.IsAbs(s.Dir) {
		return fmt.Errorf("run: field \"dir\" is %q, want an absolute path", s.Dir)
	}
	if err := s.Isolation.check(); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}

// ExitError is a command that ended with another code than 0.
type ExitError struct {
	// Code is its exit code, or 128 plus the signal's number.
	Code int
	// Stderr is the end of what it wrote there, at most 1 KiB.
	Stderr string
}

// Error returns one line if the command wrote one.
func (e *ExitError) Error() string {
	if e.Stderr == "" {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return fmt.Sprintf("exit %d: %s", e.Code, e.Stderr)
}

// Run runs a command in the sandbox by `program run` and returns when it and all
// its children have ended. Its standard output is dropped. Error: [*ExitError],
// also for a command that could not be started.
func Run(ctx context.Context, sb Execer, program string, spec RunSpec) error {
	in, err := json.Marshal(spec)
	if err != nil {
		return wrap("run", err)
	}
	p, err := sb.Exec(ctx, sandbox.Command{Dir: anyDir, Argv: []string{program, "run"}})
	if err != nil {
		return wrap("run", err)
	}
	var stderr tail
	var outputs sync.WaitGroup
	outputs.Go(func() { _, _ = io.Copy(io.Discard, p.Stdout()); _ = p.Stdout().Close() })
	outputs.Go(func() { _, _ = io.Copy(&stderr, p.Stderr()); _ = p.Stderr().Close() })
	// A runner that ends early reports why on its stderr.
	_, _ = p.Stdin().Write(append(in, '\n'))
	_ = p.Stdin().Close()
	code, err := p.Wait(ctx)
	if err != nil {
		_ = p.Kill()
		_, _ = p.Wait(context.WithoutCancel(ctx))
	}
	outputs.Wait()
	if err == nil && code != 0 {
		err = &ExitError{Code: code, Stderr: strings.TrimSpace(strings.ToValidUTF8(string(stderr), "\uFFFD"))}
	}
	return wrap("run", err)
}

// tail keeps the end of the written bytes.
type tail []byte

const tailBytes = 1 << 10

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	if over := len(*t) - tailBytes; over > 0 {
		*t = append((*t)[:0], (*t)[over:]...)
	}
	return len(p), nil
}
