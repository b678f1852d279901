package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
)

// Home is a sandbox's home for an adapter, until its context ends.
type Home struct {
	ctx context.Context
	sb  sandbox.Sandbox
	// agent is whose home it is, for what needs its runner; may be nil.
	agent *Agent
}

// NewHome returns the home of a sandbox without what needs its runner: databases.
func NewHome(ctx context.Context, sb sandbox.Sandbox) Home { return Home{ctx: ctx, sb: sb} }

// Home returns the agent's home.
func (a *Agent) Home(ctx context.Context) Home { return Home{ctx, a.Sandbox, a} }

// OpenDatabase opens a database in place, isolated like the agent: the file may contain
// whatever the agent wrote.
func (h Home) OpenDatabase(name string) (adapters.Database, error) {
	if h.agent == nil || h.agent.Paths.Runner == "" {
		return nil, fmt.Errorf("query %s: %w", name, errors.ErrUnsupported)
	}
	p := h.agent.Paths
	spec := runner.RunSpec{Env: h.agent.Env, Dir: p.Home, Isolation: Isolation(p)}
	spec.Isolation.Network = sandbox.Network{} // a namespace for what opens no connection takes time
	ctx, cancel := context.WithTimeout(h.ctx, queryPatience)
	db, err := runner.OpenDatabase(ctx, h.sb, p.Runner, spec, path.Join(p.Home, name))
	if err != nil {
		cancel()
		return nil, err
	}
	return database{db, cancel}, nil
}

// queryPatience bounds how long a database is queried: whatever the agent made of it, the
// archive must not wait forever.
const queryPatience = 2 * time.Minute

// database is a database with its deadline.
type database struct {
	*runner.Database
	cancel context.CancelFunc
}

func (d database) Close() error {
	defer d.cancel()
	return d.Database.Close()
}

// inHome selects a path in the home, which is Sojourn's own: permissions that a tool
// removed in it are restored.
func inHome(name string) sandbox.Selection {
	return sandbox.Selection{Area: sandbox.AreaHome, Paths: []string{name}, Unlock: true, Depth: 1}
}

// Glob lists the folder before the pattern's first wildcard and matches.
func (h Home) Glob(pattern string) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("glob %q: %w", pattern, err)
	}
	fixed, depth := pattern, 1
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		fixed = path.Dir(pattern[:i] + "x")
		depth = 1 + strings.Count(pattern, "/")
		if fixed != "." {
			depth -= strings.Count(fixed, "/")
		}
	}
	var found []string
	sel := inHome(fixed)
	sel.Depth = depth
	for f, err := range h.sb.CopyOut(h.ctx, sel) {
		if err != nil {
			return nil, fmt.Errorf("glob %q: %w", pattern, err)
		}
		if ok, err := path.Match(pattern, f.Path); err == nil && ok {
			found = append(found, f.Path)
		}
	}
	return found, nil
}

// Open opens a file; unread parts cost nothing.
func (h Home) Open(name string) (io.ReadCloser, error) { return h.OpenAt(name, 0) }

// MaxFile is how many bytes of a file are read. No agent's transcript gets there; a tool can
// make it so, as a hole takes no disk, and whoever reads terabytes does not return.
const MaxFile = 4 << 30

// OpenAt opens a file at a byte. It ends at MaxFile, and reading ends with the context: a
// superseded attempt must not read a huge file to its end.
func (h Home) OpenAt(name string, start int64) (io.ReadCloser, error) {
	sel := inHome(name)
	sel.From = map[string]int64{name: start}
	next, stop := iter.Pull2(h.sb.CopyOut(h.ctx, sel))
	for {
		f, err, more := next()
		switch {
		case !more:
			err = fs.ErrNotExist
		case err == nil && f.Path != name:
			continue
		case err == nil && f.Body == nil:
			stop()
			return io.NopCloser(strings.NewReader("")), nil
		case err == nil:
			return &opened{h.ctx, io.LimitReader(f.Body, MaxFile-start), stop}, nil
		}
		stop()
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
}

// opened is a file in the middle of a copy that is not continued.
type opened struct {
	ctx  context.Context
	body io.Reader
	stop func()
}

func (o *opened) Read(p []byte) (int, error) {
	if err := o.ctx.Err(); err != nil {
		return 0, err
	}
	return o.body.Read(p)
}

func (o *opened) Close() error {
	o.stop()
	return nil
}

// Size returns the size of a file in bytes; 0 if there is none.
func (h Home) Size(name string) (int64, error) {
	for f, err := range h.sb.CopyOut(h.ctx, inHome(name)) {
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", name, err)
		}
		if f.Path == name {
			return f.Size, nil
		}
	}
	return 0, nil
}

// ErrTooLarge is wrapped for a file that would have to be held in full, or is over MaxFile.
var ErrTooLarge = errors.New("the file is too large")

// ReadFile reads a file of at most limit bytes; the error of a larger one wraps
// [ErrTooLarge].
func (h Home) ReadFile(name string, limit int64) ([]byte, error) {
	in, err := h.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%w: over %d bytes", ErrTooLarge, limit)
	}
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}
