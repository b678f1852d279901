package runner

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/sojourn-run/sojourn/runner/internal/wire"
	"github.com/sojourn-run/sojourn/sandbox"
)

// Execer is what a sandbox must implement to run a runner.
type Execer interface {
	Exec(ctx context.Context, cmd sandbox.Command) (sandbox.Process, error)
}

// started is the line that `sojourn-runner start` prints.
type started struct {
	Status *Status     `json:"status,omitempty"`
	Error  *wire.Error `json:"error,omitempty"`
}

// EncodeStarted returns the line that `sojourn-runner start` prints.
func EncodeStarted(s Status, err error) ([]byte, error) {
	if err != nil {
		return wire.Line(started{Error: EncodeError(err)})
	}
	return wire.Line(started{Status: &s})
}

// Start runs `program start` in the sandbox, which leaves a supervisor behind
// that owns the agent, and returns when its control socket takes connections.
// Errors: [ErrRunning] (an agent is alive there: attach), [ErrEpoch], or what the
// runner reported in one line. After an error no process is left.
func Start(ctx context.Context, sb Execer, program string, spec StartSpec) (Status, error) {
	in, err := json.Marshal(spec)
	if err != nil {
		return Status{}, wrap("start", err)
	}
	p, err := sb.Exec(ctx, sandbox.Command{Dir: anyDir, Argv: []string{program, "start"}})
	if err != nil {
		return Status{}, wrap("start", err)
	}
	out, stderr, err := talk(ctx, p, in)
	if err != nil {
		return Status{}, wrap("start", err)
	}
	return parseStarted(out, stderr)
}

func parseStarted(out, stderr []byte) (Status, error) {
	status, err := DecodeStarted(out)
	if errors.Is(err, errNoStatus) {
		err = fmt.Errorf("%w; it said: %s", err, bytes.TrimSpace(append(out, stderr...)))
	}
	return status, wrap("start", err)
}

var errNoStatus = errors.New("the runner gave no status")

// DecodeStarted parses the line that `sojourn-runner start` prints.
func DecodeStarted(line []byte) (Status, error) {
	var s started
	err := json.Unmarshal(line, &s)
	switch {
	case err == nil && s.Error != nil:
		return Status{}, DecodeError(s.Error)
	case err != nil || s.Status == nil:
		return Status{}, errNoStatus
	}
	return *s.Status, nil
}

// talk writes in, collects both outputs and waits for the end.
func talk(ctx context.Context, p sandbox.Process, in []byte) (out, stderr []byte, err error) {
	var wg sync.WaitGroup
	wg.Go(func() {
		// A program that ends early reports why on its outputs.
		_, _ = p.Stdin().Write(in)
		_ = p.Stdin().Close()
	})
	wg.Go(func() { out, _ = io.ReadAll(p.Stdout()) })
	wg.Go(func() { stderr, _ = io.ReadAll(p.Stderr()) })
	_, err = p.Wait(ctx)
	if err != nil {
		err = errors.Join(err, p.Kill())
	}
	wg.Wait()
	return out, stderr, errors.Join(err, p.Stdout().Close(), p.Stderr().Close())
}

// anyDir is where the runner's own commands run: a tool may have closed or removed the
// workspace, and an agent is attached to all the same.
const anyDir = "/"

// Attach runs `program attach` in the sandbox and connects through its stdio.
// The bridge ends with ctx or with Close of the connection; the agent continues.
func Attach(ctx context.Context, sb Execer, program, socket, token string, epoch uint64) (*Conn, error) {
	p, err := sb.Exec(ctx, sandbox.Command{Dir: anyDir, Argv: []string{program, "attach", "--socket", socket}})
	if err != nil {
		return nil, wrap("attach", err)
	}
	b := newBridge(p)
	c, err := Dial(ctx, b, token, epoch)
	if err != nil {
		return nil, b.explain(err)
	}
	return c, nil
}

// bridge makes one stream of an attach process's stdio.
type bridge struct {
	p    sandbox.Process
	wg   sync.WaitGroup
	once sync.Once

	mu   sync.Mutex
	said string
}

func newBridge(p sandbox.Process) *bridge {
	b := &bridge{p: p}
	b.wg.Go(func() {
		in := bufio.NewScanner(p.Stderr())
		for in.Scan() {
			b.mu.Lock()
			b.said = in.Text()
			b.mu.Unlock()
		}
	})
	return b
}

func (b *bridge) Read(d []byte) (int, error)  { return b.p.Stdout().Read(d) }
func (b *bridge) Write(d []byte) (int, error) { return b.p.Stdin().Write(d) }

// Close ends the bridge process and waits for it.
func (b *bridge) Close() error {
	b.once.Do(func() {
		_ = b.p.Stdin().Close()
		_ = b.p.Kill()
		_, _ = b.p.Wait(context.Background())
		_ = b.p.Stdout().Close()
		b.wg.Wait()
		_ = b.p.Stderr().Close()
	})
	return nil
}

// explain adds the bridge's stderr, if that is why no answer came.
func (b *bridge) explain(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.said == "" || !errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("%w (%s)", err, b.said)
}
