package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sojourn-run/sojourn/test/harness"
)

// host is a data folder with its worker.
type host struct {
	dir, tmp string
	flags    []string
	// disk reports whether the folder is, or was, a disk of its own.
	disk bool

	// starting is held while a worker is started: two kills that end at the same time
	// may both start one, and a data folder takes one only.
	starting sync.Mutex

	mu sync.Mutex
	// worker is nil while none is running.
	worker *harness.Process
	gone   bool
}

// holds reports whether a session's sandbox is on the host.
func (h *host) holds(session string) bool {
	found, err := filepath.Glob(filepath.Join(h.dir, "sandboxes", session+"-*"))
	return err == nil && len(found) > 0
}

// hosts are all hosts of a run, lost ones too.
type hosts struct {
	stack *harness.Stack
	links links
	// note is called with errors that don't end the run.
	note func(format string, args ...any)

	mu    sync.Mutex
	all   []*host
	owned sync.WaitGroup
}

// links are the connections from hosts to the servers, which can be cut.
type links struct {
	stream, archive, temporal *harness.Forwarder
	env                       []string
}

func newLinks(env map[string]string) (links, error) {
	var l links
	for _, one := range []struct {
		name string
		to   **harness.Forwarder
	}{{"NATS_URL", &l.stream}, {"AWS_ENDPOINT_URL_S3", &l.archive}, {"TEMPORAL_ADDRESS", &l.temporal}} {
		var err error
		if *one.to, err = harness.Forward(env[one.name]); err != nil {
			return l, errors.Join(err, l.close())
		}
		l.env = append(l.env, one.name+"="+(*one.to).Through())
	}
	return l, nil
}

func (l links) close() error {
	for _, f := range []*harness.Forwarder{l.stream, l.archive, l.temporal} {
		if f != nil {
			f.Stop()
		}
	}
	return nil
}

// add starts a new host.
func (s *hosts) add(ctx context.Context, flags ...string) (*host, error) {
	s.mu.Lock()
	dir := filepath.Join(s.stack.Dir, fmt.Sprintf("h%d", len(s.all)+1))
	h := &host{dir: dir, tmp: dir + "-tmp", flags: flags}
	s.all = append(s.all, h)
	s.mu.Unlock()
	for _, d := range []string{h.dir, h.tmp} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	if err := h.mount(); err != nil {
		return nil, fmt.Errorf("host %s: a disk of its own: %w", filepath.Base(h.dir), err)
	}
	return h, s.start(ctx, h)
}

// start starts a worker on a host, unless it has one; more are extra arguments of this
// worker only.
func (s *hosts) start(ctx context.Context, h *host, more ...string) error {
	h.starting.Lock()
	defer h.starting.Unlock()
	if h.up() || h.lost() {
		return nil
	}
	extra := slices.Concat([]string{"TMPDIR=" + h.tmp}, s.links.env, h.flags, more)
	p, err := s.stack.StartWorker(ctx, h.dir, extra...)
	if err != nil {
		return fmt.Errorf("host %s: %w", filepath.Base(h.dir), err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.worker = p
	return nil
}

// take returns the host's worker for the caller to end, or nil if another caller has
// taken it.
func (h *host) take() *harness.Process {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.worker
	h.worker = nil
	return p
}

func (h *host) up() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.worker != nil && !h.gone
}

func (h *host) lost() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gone
}

// living returns the hosts with a worker.
func (s *hosts) living() []*host {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*host
	for _, h := range s.all {
		if h.up() {
			out = append(out, h)
		}
	}
	return out
}

// of returns the living host that has a session's sandbox, or nil.
func (s *hosts) of(session string) *host {
	for _, h := range s.living() {
		if h.holds(session) {
			return h
		}
	}
	return nil
}

// replace ends the host's worker and starts the next one, in the background.
func (s *hosts) replace(ctx context.Context, h *host, end func() error) {
	s.owned.Go(func() {
		if err := end(); err != nil {
			s.note("end a worker: %v", err)
		}
		for ctx.Err() == nil {
			err := s.start(ctx, h)
			if err == nil {
				return
			}
			s.note("a worker could not start: %s", gist(err))
			wait(ctx, time.Second)
		}
	})
}

// visit kills a host's worker, runs one of another program on the host for a while, and
// then one of this build again.
func (s *hosts) visit(ctx context.Context, h *host, p *harness.Process, program string, stay time.Duration) {
	s.owned.Go(func() {
		if err := p.Kill(); err != nil {
			s.note("end a worker: %v", err)
		}
		if err := s.start(ctx, h, "SOJOURN_WORKER_BIN="+program); err != nil {
			s.note("a worker of the build before could not start: %s", gist(err))
		}
		wait(ctx, stay)
		end := func() error { return nil }
		if visitor := h.take(); visitor != nil {
			end = visitor.Kill
		}
		s.replace(ctx, h, end)
	})
}

// gist returns the first line that the program printed before it failed to start, or
// else the error's first line.
func gist(err error) string {
	first, said, _ := strings.Cut(err.Error(), "\n")
	said, _, _ = strings.Cut(said, "\n")
	return cmp.Or(strings.TrimSpace(said), first)
}

// kill ends a host with all its agents and removes its folder.
func (h *host) kill(p *harness.Process) error {
	h.mu.Lock()
	h.gone = true
	h.mu.Unlock()
	err := p.Kill()
	for range 100 {
		pids, listErr := harness.Agents(h.dir)
		if listErr != nil || len(pids) == 0 {
			break
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.Join(err, h.unmount(), os.RemoveAll(h.dir), os.RemoveAll(h.tmp))
}

// close stops all workers and ends their remaining agents.
func (s *hosts) close() error {
	s.owned.Wait()
	var errs []error
	for _, h := range s.all {
		if p := h.take(); p != nil {
			errs = append(errs, p.Stop())
		}
		errs = append(errs, harness.EndAgents(h.dir), h.unmount())
	}
	return errors.Join(append(errs, s.links.close())...)
}

// wait waits for d or until the context ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
