package archive

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// RestoredFile is a transcript to be restored under an agent's home.
type RestoredFile struct {
	TranscriptInfo
	// Mode is 0600: only the agent reads a transcript.
	Mode fs.FileMode
	// Open reads it from the store, as [Archive.ReadTranscript] does.
	Open func() (io.ReadCloser, error)
}

// RestoreFiles returns the session's native transcripts to be written under an
// agent's home, main first. Paths are relative and without "..", but the home may
// already contain symbolic links: write through os.Root. The error ends it.
//
// An epoch other than 0 seals each transcript before it is yielded: what the
// agent then adds to the file can be appended, because no earlier writer can
// commit any more. Epoch 0 only reads.
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

// SaveTranscript appends what is missing of a transcript's whole content, for
// callers that have no offsets: subagent "" is the main one. What is archived
// must be the beginning of raw, else [ErrConflict].
func (a *Archive) SaveTranscript(ctx context.Context, session string, epoch uint64, raw []byte, subagent, path string) (TranscriptInfo, error) {
	t := adapters.Transcript{ID: cmp.Or(subagent, event.Main), Path: path, Kind: adapters.Append}
	h, err := a.freshHead(ctx, session, t.ID)
	if err == nil && h.Size > int64(len(raw)) {
		err = fmt.Errorf("%w: archived are %d bytes, given %d", ErrConflict, h.Size, len(raw))
		return TranscriptInfo{}, fmt.Errorf("archive: save transcript %s of session %s: %w", t.ID, session, err)
	}
	return a.AppendTranscript(ctx, session, epoch, t, 0, raw)
}
