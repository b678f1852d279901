package worker

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// readyFile is in the data folder while a worker serves it, and has the host's
// id. A killed worker leaves it to the next one, which removes it before it
// starts.
const readyFile = "ready"

// markReady makes the file; unmark removes it. A disk on which that fails does
// not prevent a worker from serving.
func markReady(dataDir, host string, logger *slog.Logger) (unmark func()) {
	path := filepath.Join(dataDir, readyFile)
	if err := os.WriteFile(path, []byte(host+"\n"), 0o600); err != nil {
		logger.Warn("sojourn-worker health can't see that this worker is ready", "error", err)
	}
	return func() {
		if err := unmarkDead(dataDir); err != nil {
			logger.Warn("sojourn-worker health can't see that this worker has ended, but for its lock", "error", err)
		}
	}
}

// unmarkDead removes the file of a killed worker; the caller holds the lock.
func unmarkDead(dataDir string) error {
	err := os.Remove(filepath.Join(dataDir, readyFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("data folder: %w", err)
	}
	return nil
}

// health reports whether a worker serves the data folder now: it has connected
// and polls. One that keeps restarting is not healthy, although a process is
// always running.
func health(dataDir string, stdout io.Writer) error {
	unhealthy := func(why string) error {
		return hinted{fmt.Errorf("data folder %s: %s", dataDir, why), "the worker's log says what keeps it from being ready"}
	}
	held, err := lockHeld(filepath.Join(dataDir, "worker.lock"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return unhealthy("no worker has run on it")
	case err != nil:
		return fmt.Errorf("data folder: %w", err)
	case !held:
		return unhealthy("no worker runs on it")
	}
	host, err := os.ReadFile(filepath.Join(dataDir, readyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return unhealthy("its worker is not ready")
	}
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	_, err = fmt.Fprintf(stdout, "sojourn-worker is ready: host %s\n", strings.TrimSpace(string(host)))
	return err
}
