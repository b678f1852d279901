package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/sojourn-run/sojourn/runner"
)

// epoch is the highest one seen, kept on disk. What depends on it runs under its
// read lock, so that no request of an older epoch takes effect after a newer one
// was answered.
type epoch struct {
	mu      sync.RWMutex
	highest uint64
	changed chan struct{}
}

// load reads the file and checks the starter's epoch against it.
func (e *epoch) load(dir string, starter uint64) error {
	b, err := os.ReadFile(filepath.Join(dir, "epoch"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if text := strings.TrimSpace(string(b)); text != "" {
		if e.highest, err = strconv.ParseUint(text, 10, 64); err != nil {
			return fmt.Errorf("file epoch: %w", err)
		}
	}
	e.changed = make(chan struct{})
	return e.check(starter)
}

func (e *epoch) check(theirs uint64) error {
	if theirs < e.highest {
		return fmt.Errorf("epoch %d, seen %d: %w", theirs, e.highest, runner.ErrEpoch)
	}
	return nil
}

// raise sets the epoch to one that is not lower than any seen.
func (e *epoch) raise(c *control, to uint64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.check(to); err != nil || to == e.highest {
		return err
	}
	if err := c.replace("epoch", []byte(strconv.FormatUint(to, 10)+"\n")); err != nil {
		return fmt.Errorf("keep epoch: %w", err)
	}
	e.highest = to
	close(e.changed)
	e.changed = make(chan struct{})
	return nil
}

// under runs do unless a higher epoch has been seen, and blocks higher ones
// meanwhile.
func (e *epoch) under(theirs uint64, do func() error) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if err := e.check(theirs); err != nil {
		return err
	}
	return do()
}

func (e *epoch) seen() uint64 {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.highest
}

// watch returns a channel that the next raise closes.
func (e *epoch) watch(theirs uint64) (<-chan struct{}, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.changed, e.check(theirs)
}
