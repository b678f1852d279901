package session

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/workspace"
)

// SavedData is everything stored of a session: its list data, its native
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

// RuntimeData is a session as clients see it: the stored data, its conversation,
// and what runs. It is never stored.
type RuntimeData struct {
	SavedData
	// Blocks are the selected blocks of the main conversation.
	Blocks []event.Block `json:"blocks"`
	// Inspection is the state of its workflow, with the snapshot; of a closed session what its
	// record has of that.
	Inspection Inspection `json:"inspection"`
	// Asks as in Conversation.
	Asks []event.Event `json:"asks,omitempty"`
	// Runtime is what runs now; nil in data that was not read by Client.Runtime.
	Runtime *event.Runtime `json:"runtime,omitempty"`
	// Faults as in Conversation.
	Faults []string `json:"faults,omitempty"`
}

// Runtime reads a session into memory: everything stored, the selected part of
// its conversation, as Show returns it, and its state and what runs, from its workflow. The
// stored data of an open session may be some seconds behind. Errors:
// [ErrNotFound], [ErrNotBegun], [ErrNoArchive], or the part that is not reachable.
func (c *Client) Runtime(ctx context.Context, id string, t Timeline) (RuntimeData, error) {
	if err := t.Validate(); err != nil {
		return RuntimeData{}, err
	}
	saved, err := c.Load(ctx, id)
	if err != nil {
		return RuntimeData{}, err
	}
	conv, err := c.Show(ctx, id, FromAuto)
	if err != nil {
		return RuntimeData{}, err
	}
	data := RuntimeData{SavedData: saved, Blocks: t.Of(conv.State.Blocks), Asks: conv.Asks, Runtime: &event.Runtime{}, Faults: conv.Faults}
	known, err := c.lookup(ctx, id)
	if errors.Is(err, ErrNotFound) || err == nil && !known.open {
		if data.Inspection, err = inspectClosed(saved.ListData); err != nil {
			data.Faults = append(data.Faults, err.Error())
		}
		return data, nil
	}
	if err != nil {
		return RuntimeData{}, err
	}
	if data.Inspection, err = (&Handle{c: c, id: id, first: known.first}).Inspect(ctx); err != nil {
		return RuntimeData{}, err
	}
	data.Runtime.IsLoaded = true
	if at := data.Inspection.Sandbox; at != nil {
		env := at.Environment(at.Status)
		data.Runtime.Sandbox = &env
	}
	return data, nil
}

// Files returns the files of a session's workspace as they were archived at the
// end of its last turn, open or closed. If the user chose the folder
// (Options.Workspace) its files stay there, and none are returned. Errors:
// [ErrNotFound], [ErrNotBegun], [ErrNoArchive].
func (c *Client) Files(ctx context.Context, id string) ([]workspace.File, error) {
	w, err := c.workspace(ctx, id)
	if err != nil {
		return nil, err
	}
	return w.Files(), nil
}

// OpenFile opens one of the Files, whose content is checked while it is read.
// Errors: those of Files, and fs.ErrNotExist for a path that is not a regular
// file.
func (c *Client) OpenFile(ctx context.Context, id, path string) (io.ReadCloser, error) {
	w, err := c.workspace(ctx, id)
	if err != nil {
		return nil, err
	}
	return w.OpenFile(ctx, path)
}

func (c *Client) workspace(ctx context.Context, id string) (*workspace.Store, error) {
	if err := ValidateID("id", id); err != nil {
		return nil, err
	}
	if _, err := c.record(ctx, id, FromArchive); err != nil {
		return nil, err
	}
	return workspace.Open(ctx, c.o.Archive, id, 0)
}

// Load reads everything stored of a session into memory. Errors: [ErrNotFound],
// [ErrNotBegun], [ErrNoArchive].
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
	data, err := io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}
