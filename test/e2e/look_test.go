package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// sandboxes returns the sandbox folders of a worker's host.
func sandboxes(t *testing.T, w *worker) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(w.dataDir, "sandboxes", "[^.]*"))
	require.NoError(t, err)
	var dirs []string
	for _, f := range found {
		if info, err := os.Stat(f); err == nil && info.IsDir() {
			dirs = append(dirs, filepath.Base(f))
		}
	}
	return dirs
}

// listed returns the ids of a list, over all pages.
func listed(t *testing.T, o session.ListOptions) []string {
	t.Helper()
	var ids []string
	for {
		page, err := spaceOf(t).Client.List(testContext(t), o)
		require.NoError(t, err)
		for _, s := range page.Sessions {
			ids = append(ids, s.SessionID)
		}
		if o.PageToken = page.Next; page.Next == "" {
			return ids
		}
	}
}

// answered returns the message ids in the order in which their executions ended.
func answered(t *testing.T, h *session.Handle) []string {
	t.Helper()
	var ids []string
	for _, ev := range events(t, h) {
		switch p := ev.Payload.(type) {
		case event.QueryCompleted:
			ids = append(ids, p.MessageIDs...)
		case event.QueryFailed:
			ids = append(ids, p.MessageIDs...)
		case event.QueryInterrupted:
			ids = append(ids, p.MessageIDs...)
		}
	}
	return ids
}

// waitRecord waits until the session's record is in the archive.
func waitRecord(t *testing.T, id string) archive.ListData {
	t.Helper()
	var rec archive.ListData
	eventually(t, func(c *assert.CollectT) bool {
		var err error
		rec, err = spaceOf(t).Archive.Session(testContext(t), id)
		require.True(t, err == nil || errors.Is(err, archive.ErrNotFound), "%v", err)
		return err == nil
	}, patience, tick)
	return rec
}
