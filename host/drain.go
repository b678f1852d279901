package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/session"
)

const (
	// drainEvery is how often a host that is drained looks for sandboxes to give up.
	drainEvery = time.Second
	// drainAgain is when a session that has accepted is asked again.
	drainAgain = 10 * time.Minute
)

// SetDraining begins or ends the draining of this host: it makes no new sandboxes, and
// [Host.Drain] has sessions give up those that it has. A restart doesn't end it.
func (h *Host) SetDraining(on bool) (err error) {
	if on {
		err = os.WriteFile(drainFile(h.o.DataDir), nil, 0o600)
	} else if err = os.Remove(drainFile(h.o.DataDir)); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("drain host %s: %w", h.o.ID, err)
	}
	h.Slots.setClosed(on)
	return nil
}

// Draining reports whether this host is drained.
func (h *Host) Draining() bool { return h.Slots.isClosed() }

// drainFile exists while the host of a data folder is drained.
func drainFile(dataDir string) string { return filepath.Join(dataDir, "draining") }

func isDrained(dataDir string) bool {
	_, err := os.Stat(drainFile(dataDir))
	return dataDir != "" && err == nil
}

// Drain asks, while this host is drained, the session of each sandbox to give it up, until
// ctx ends. A sandbox with commands in the background stays until they end.
func (h *Host) Drain(ctx context.Context) {
	var mu sync.Mutex
	asked := map[string]time.Time{}
	Every(ctx, drainEvery, func() {
		if !h.Draining() {
			clear(asked)
			return
		}
		h.eachSandbox(ctx, "drain", func(ctx context.Context, info sandbox.Info) error {
			mu.Lock()
			last := asked[info.SandboxID]
			mu.Unlock()
			if time.Since(last) < drainAgain {
				return nil
			}
			if commands := h.Background(ctx, info); len(commands) > 0 {
				return fmt.Errorf("commands are at work in the background: %s", strings.Join(commands, ", "))
			}
			if err := h.o.Evict(ctx, info.SessionID, session.EvictRequest{SandboxID: info.SandboxID, Reason: session.EvictForDrain}); err != nil {
				return err
			}
			mu.Lock()
			asked[info.SandboxID] = time.Now()
			mu.Unlock()
			return nil
		})
	})
}
