package session

import (
	"context"
	"fmt"
	"io"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/workspace"
)

// SavedData is all that is stored of a session: its list data, its native
// transcripts as the agent wrote them, and its workspace files' names.
type SavedData struct {
	archive.ListData
	// RawTranscript is the main transcript; transcripts can be large, and
	// [archive.Archive.ReadTranscript] streams them.
	RawTranscript []byte `json:"rawTranscript,omitempty"`
	// Subagents are all other transcripts.
	Subagents []SavedTranscript `json:"subagents"`
	// WorkspaceFiles are the files and symlinks, without their folders.
	WorkspaceFiles []workspace.File `json:"workspaceFiles"`
}

// SavedTranscript is a transcript with its bytes.
type SavedTranscript struct {
	archive.TranscriptInfo
	RawTranscript []byte `json:"rawTranscript"`
}

// RuntimeData is a session as clients see it: what is saved, the blocks that
// an adapter's parse finds in it, and, while it is open, what runs. It is
// never stored.
type RuntimeData struct {
	SavedData
	Blocks  []event.Block  `json:"blocks"`
	Runtime *event.Runtime `json:"runtime,omitempty"`
}

// Load reads all that is stored of a session into memory. Errors: [ErrNotFound],
// [ErrNoArchive].
func (c *Client) Load(ctx context.Context, id string) (SavedData, error) {
	data, err := c.record(ctx, id, FromArchive)
	if err != nil {
		return SavedData{}, err
	}
	saved := SavedData{ListData: data}
	if err := saved.load(ctx, c.o.Archive); err != nil {
		return SavedData{}, fmt.Errorf("load session %s: %w", id, err)
	}
	return saved, nil
}

func (s *SavedData) load(ctx context.Context, a *archive.Archive) error {
	infos, err := a.Transcripts(ctx, s.ID)
	if err != nil {
		return err
	}
	for _, info := range infos {
		raw, err := readTranscript(ctx, a, s.ID, info.ID)
		if err != nil {
			return err
		}
		if info.ID == event.Main {
			s.RawTranscript = raw
			continue
		}
		s.Subagents = append(s.Subagents, SavedTranscript{info, raw})
	}
	files, err := workspace.Open(ctx, a, s.ID, 0)
	if err != nil {
		return err
	}
	for _, f := range files.Files() {
		if !f.Mode.IsDir() {
			s.WorkspaceFiles = append(s.WorkspaceFiles, f)
		}
	}
	return nil
}

func readTranscript(ctx context.Context, a *archive.Archive, session, id string) ([]byte, error) {
	r, err := a.ReadTranscript(ctx, session, id)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
