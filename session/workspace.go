package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/workspace"
)

// SaveFile writes a file into the workspace of a closed session, in place of what is at the path.
// The session has it when it is opened again. Errors: [ErrNotFound], [ErrNoArchive]; [ErrBusy] for
// an open session, whose agent works in its files; an [InvalidError] for the path, and for a session
// without archived files.
func (c *Client) SaveFile(ctx context.Context, id, path string, mode fs.FileMode, data []byte) (workspace.File, error) {
	epoch, err := c.ownWorkspace(ctx, id)
	if err != nil {
		return workspace.File{}, err
	}
	f, err := workspace.SaveFile(ctx, c.o.Archive, id, epoch, path, mode, data)
	return f, ofPath(err)
}

// DeleteFile deletes a file from the workspace of a closed session; an unknown one is no error.
// Errors: those of SaveFile.
func (c *Client) DeleteFile(ctx context.Context, id, path string) error {
	epoch, err := c.ownWorkspace(ctx, id)
	if err != nil {
		return err
	}
	return ofPath(workspace.DeleteFile(ctx, c.o.Archive, id, epoch, path))
}

// ownWorkspace takes the epoch of a closed session. One that is opened meanwhile takes a later one
// for its sandbox.
func (c *Client) ownWorkspace(ctx context.Context, id string) (epoch uint64, err error) {
	w, err := c.workspace(ctx, id)
	if err != nil {
		return 0, err
	}
	if !w.Known() {
		return 0, Invalid("id", "is of a session without archived files", "a session that has run a turn in a folder of its own")
	}
	switch known, err := c.lookup(ctx, id); {
	case errors.Is(err, ErrNotFound) || err == nil && !known.open:
	case err != nil:
		return 0, err
	default:
		return 0, fmt.Errorf("session %s is open, and its files are its agent's: %w", id, ErrBusy)
	}
	if epoch, err = c.o.Archive.TakeEpoch(ctx, id); err != nil {
		return 0, fmt.Errorf("session %s: change its files: %w", id, err)
	}
	return epoch, nil
}

// ofPath names the field that the archive refuses.
func ofPath(err error) error {
	if errors.Is(err, archive.ErrInvalid) {
		return Invalid("path", err.Error(), "a path below the workspace, with / between folders")
	}
	return err
}
