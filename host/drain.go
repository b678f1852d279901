package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// SetDraining begins or ends the draining of this host: it makes no new sandboxes, and
// [Host.Renew] has sessions give up those that it has. A restart doesn't end it.
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
