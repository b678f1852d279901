package archive

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// RestoredFile is a transcript to be put back under an agent's home.
type RestoredFile struct {
	TranscriptInfo
	// Mode is 0600: nobody but the agent reads a transcript.
	Mode fs.FileMode
	// Open reads it from the store, as [Archive.ReadTranscript].
	Open func() (io.ReadCloser, error)
}

// RestoreFiles gives the session's native transcripts to be written under an
// agent's home, main first. Paths are relative and without "..", but the home
// may hold symbolic links by then: write through os.Root. The error ends it.
//
// An epoch other than 0 seals each transcript before it is given out: what the
// agent then adds to the file can be appended, because no earlier writer can
// commit any more. Epoch 0 only looks.
func (a *Archive) RestoreFiles(ctx context.Context, session string, epoch uint64) iter.Seq2[RestoredFile, error] {
	return func(yield func(RestoredFile, error) bool) {
		infos, err := a.restorable(ctx, session, epoch)
		if err != nil {
			yield(RestoredFile{}, fmt.Errorf("archive: restore files of session %s: %w", session, err))
			return
		}
		for _, info := range infos {
			f := RestoredFile{TranscriptInfo: info, Mode: 0o600, Open: func() (io.ReadCloser, error) {
				return a.ReadTranscript(ctx, session, info.ID)
			}}
			if !yield(f, nil) {
				return
			}
		}
	}
}

func (a *Archive) restorable(ctx context.Context, session string, epoch uint64) ([]TranscriptInfo, error) {
	if epoch == 0 {
		return a.Transcripts(ctx, session)
	}
	if err := a.fence(ctx, session, epoch); err != nil {
		return nil, err
	}
	infos, err := a.Transcripts(ctx, session)
	for i := range infos {
		if err != nil {
			break
		}
		var h transcriptHead
		h, err = a.seal(ctx, session, epoch, infos[i].ID)
		infos[i] = h.info()
	}
	return infos, err
}

// SaveTranscript brings a session's transcript up to its whole content, for callers that have no offsets: subagent "" is the main one. What
// is archived must be the beginning of raw, else [ErrConflict].
func (a *Archive) SaveTranscript(ctx context.Context, session string, epoch uint64, raw []byte, subagent, path string) (TranscriptInfo, error) {
	t := adapters.Transcript{ID: cmp.Or(subagent, event.Main), Path: path, Kind: adapters.Append}
	h, err := a.freshHead(ctx, session, t.ID)
	if err == nil && h.Size > int64(len(raw)) {
		err = fmt.Errorf("%w: archived are %d bytes, given %d", ErrConflict, h.Size, len(raw))
		return TranscriptInfo{}, fmt.Errorf("archive: save transcript %s of session %s: %w", t.ID, session, err)
	}
	return a.AppendTranscript(ctx, session, epoch, t, 0, raw)
}

// WorkspaceFile is a file of the session's workspace.
type WorkspaceFile struct {
	// Path is relative to the workspace.
	Path string      `json:"path"`
	Mode fs.FileMode `json:"mode"`
	Size int64       `json:"size"`
	// SHA256 of the content, in hex.
	SHA256 string `json:"sha256"`
}

// SaveWorkspaceFile keeps a file of the workspace; one of the same path is
// replaced. The cost is that of the file. Errors: [ErrFenced].
func (a *Archive) SaveWorkspaceFile(ctx context.Context, session string, epoch uint64, path string, mode fs.FileMode, data []byte) (WorkspaceFile, error) {
	sum := sha256.Sum256(data)
	f := WorkspaceFile{Path: path, Mode: mode.Perm(), Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
	err := CheckPath(path)
	if err == nil {
		err = a.fence(ctx, session, epoch)
	}
	if err == nil {
		err = a.putWorkspace(ctx, session, f, data)
	}
	if err != nil {
		return f, fmt.Errorf("archive: save workspace file %q of session %s: %w", path, session, err)
	}
	return f, nil
}

// putWorkspace writes the content, a line of JSON before it, as one object:
// file and description can't part.
func (a *Archive) putWorkspace(ctx context.Context, session string, f WorkspaceFile, data []byte) error {
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return a.put(ctx, a.workspaceFileKey(session, f.Path), slices.Concat(line, []byte("\n"), data))
}

// workspaceFileKey spreads a path over no folders: its hash is the name, since
// a path may be longer than a store's names.
func (a *Archive) workspaceFileKey(session, path string) string {
	sum := sha256.Sum256([]byte(path))
	return a.workspaceKey(session) + hex.EncodeToString(sum[:])
}

// DeleteWorkspaceFile forgets a file; an unknown one is no error. Errors:
// [ErrFenced].
func (a *Archive) DeleteWorkspaceFile(ctx context.Context, session string, epoch uint64, path string) error {
	err := CheckPath(path)
	if err == nil {
		err = a.fence(ctx, session, epoch)
	}
	if err == nil {
		err = a.remove(ctx, a.workspaceFileKey(session, path))
	}
	if err != nil {
		return fmt.Errorf("archive: delete workspace file %q of session %s: %w", path, session, err)
	}
	return nil
}

// ReadWorkspaceFile is a file's content, checked; [ErrNotFound] for an unknown
// one.
func (a *Archive) ReadWorkspaceFile(ctx context.Context, session, path string) (WorkspaceFile, []byte, error) {
	err := checkSession(session)
	if err == nil {
		err = CheckPath(path)
	}
	var f WorkspaceFile
	var data []byte
	if err == nil {
		f, data, err = a.workspaceFile(ctx, a.workspaceFileKey(session, path))
	}
	if err != nil {
		return f, nil, fmt.Errorf("archive: read workspace file %q of session %s: %w", path, session, err)
	}
	return f, data, nil
}

func (a *Archive) workspaceFile(ctx context.Context, key string) (f WorkspaceFile, data []byte, err error) {
	all, _, err := a.get(ctx, key)
	if err != nil {
		return f, nil, err
	}
	line, data, _ := bytes.Cut(all, []byte("\n"))
	if err := json.Unmarshal(line, &f); err != nil {
		return f, nil, fmt.Errorf("%s: %w: %w", key, ErrCorrupt, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != f.SHA256 || CheckPath(f.Path) != nil {
		return f, nil, fmt.Errorf("%s: %w: file %q, sha256 %x", key, ErrCorrupt, f.Path, sum)
	}
	return f, data, nil
}

// WorkspaceFiles are the workspace's files, in no order. The error ends it.
func (a *Archive) WorkspaceFiles(ctx context.Context, session string) iter.Seq2[WorkspaceFile, error] {
	return func(yield func(WorkspaceFile, error) bool) {
		err := checkSession(session)
		if err != nil {
			yield(WorkspaceFile{}, err)
			return
		}
		for name, err := range a.list(ctx, a.workspaceKey(session), "", false) {
			var f WorkspaceFile
			if err == nil {
				f, _, err = a.workspaceFile(ctx, a.workspaceKey(session)+name)
			}
			if err != nil {
				yield(f, fmt.Errorf("archive: workspace files of session %s: %w", session, err))
				return
			}
			if !yield(f, nil) {
				return
			}
		}
	}
}
