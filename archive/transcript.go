package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"

	"github.com/sojourn-run/sojourn/adapters"
)

// TranscriptInfo is what the archive has of one transcript.
type TranscriptInfo struct {
	adapters.Transcript
	// Size is in bytes: where the next append starts.
	Size int64 `json:"size"`
	// SHA256 of the whole, in hex.
	SHA256 string `json:"sha256"`
}

// transcriptHead is a transcript's head.json, which defines the transcript.
type transcriptHead struct {
	adapters.Transcript
	// Epoch is that of the last writer, or of the last seal.
	Epoch  uint64 `json:"epoch"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// Hash is the state of the running hash at Size, for append kinds.
	Hash []byte `json:"hash,omitempty"`
	// Rev counts the contents of a snapshot.
	Rev uint64 `json:"rev,omitempty"`
	// Page is the last page of full segments, which go before Segments.
	Page     *segment  `json:"page,omitempty"`
	Segments []segment `json:"segments,omitempty"`
	// Trash is replaced and not yet known to be deleted.
	Trash []segment `json:"trash,omitempty"`
}

func (h transcriptHead) info() TranscriptInfo {
	return TranscriptInfo{Transcript: h.Transcript, Size: h.Size, SHA256: h.SHA256}
}

// UnmarshalJSON refuses an inconsistent head.
func (h *transcriptHead) UnmarshalJSON(data []byte) error {
	type bare transcriptHead
	if err := json.Unmarshal(data, (*bare)(h)); err != nil {
		return err
	}
	if h.ID == "" || CheckPath(h.Path) != nil || (h.Kind != adapters.Append && h.Kind != adapters.Snapshot) {
		return fmt.Errorf("transcript %q with path %q and kind %q", h.ID, h.Path, h.Kind)
	}
	if err := h.checkSegments(); err != nil {
		return err
	}
	_, err := h.running()
	return err
}

func (h *transcriptHead) checkSegments() error {
	at := int64(0)
	if h.Page != nil {
		at = h.Page.end
	}
	for _, s := range h.Segments {
		if s.start != at {
			return fmt.Errorf("segment %s does not start at %d", s, at)
		}
		at = s.end
	}
	if at != h.Size {
		return fmt.Errorf("segments end at %d, size is %d", at, h.Size)
	}
	return nil
}

// running returns the running hash at the head's end.
func (h *transcriptHead) running() (hash.Hash, error) {
	sum := sha256.New()
	if h.Kind == adapters.Snapshot || h.Size == 0 {
		return sum, nil
	}
	if err := sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(h.Hash); err != nil {
		return nil, fmt.Errorf("field \"hash\": %w", err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != h.SHA256 {
		return nil, fmt.Errorf("field \"hash\" gives %s, sha256 is %s", got, h.SHA256)
	}
	return sum, nil
}

// extend moves the end of the running hash.
func (h *transcriptHead) extend(data []byte) error {
	sum, err := h.running()
	if err != nil {
		return err
	}
	sum.Write(data)
	if h.Hash, err = sum.(encoding.BinaryMarshaler).MarshalBinary(); err != nil {
		return fmt.Errorf("running hash: %w", err)
	}
	h.Size += int64(len(data))
	h.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// AppendTranscript writes data at byte start of an append-kind transcript and
// returns the new state of the transcript. Bytes that are already archived are
// compared and not written again, so a call whose answer was lost may simply be
// repeated, by any process. Errors: [ErrGap], [ErrConflict], [ErrFenced]. data is
// not retained.
func (a *Archive) AppendTranscript(ctx context.Context, session string, epoch uint64, t adapters.Transcript, start int64, data []byte) (TranscriptInfo, error) {
	if t.Kind == "" {
		t.Kind = adapters.Append
	}
	if err := checkTranscript(t, adapters.Append); err != nil {
		return TranscriptInfo{}, fmt.Errorf("archive: append: %w", err)
	}
	info, err := a.append(ctx, session, epoch, t, func(int64) int64 { return start }, data)
	if err != nil {
		return TranscriptInfo{}, fmt.Errorf("archive: append to transcript %s of session %s at %d: %w", t.ID, session, start, err)
	}
	return info, nil
}

func checkTranscript(t adapters.Transcript, want adapters.Kind) error {
	if t.Kind != want {
		return fmt.Errorf("%w kind %q of transcript %s: want %s", ErrInvalid, t.Kind, t.ID, want)
	}
	if err := checkTranscriptID(t.ID); err != nil {
		return err
	}
	return CheckPath(t.Path)
}

// append is AppendTranscript with a start that may depend on the size.
func (a *Archive) append(ctx context.Context, session string, epoch uint64, t adapters.Transcript, startAt func(size int64) int64, data []byte) (info TranscriptInfo, err error) {
	err = a.changeTranscript(ctx, session, epoch, t, func(h *transcriptHead, exists bool) (changed bool, err error) {
		rest, err := a.missing(ctx, session, *h, startAt(h.Size), data)
		if err == nil && (len(rest) > 0 || !exists) {
			changed, err = true, a.grow(ctx, session, epoch, h, rest)
		}
		if err == nil {
			info = h.info()
		}
		return changed, err
	})
	return info, err
}

// changeTranscript changes a transcript's head by read, change and swap, as the
// holder of the epoch. The head is taken from the cache first: an error with a
// cached head is ignored, and the change is tried again on the stored one. After
// the swap it deletes what the change put into the trash.
func (a *Archive) changeTranscript(ctx context.Context, session string, epoch uint64, t adapters.Transcript, change func(h *transcriptHead, exists bool) (bool, error)) error {
	key := a.transcriptKey(session, t.ID) + "head.json"
	return retry(ctx, func(attempt int) error {
		if err := a.fence(ctx, session, epoch); err != nil {
			return err
		}
		s, cached, err := a.transcriptHead(ctx, key)
		if err != nil {
			return err
		}
		err = a.changeOnce(ctx, session, epoch, t, key, s, change)
		if err != nil {
			a.forget(key)
		}
		if cached && err != nil && ctx.Err() == nil {
			return fmt.Errorf("over a remembered head: %w", errors.Join(ErrChanged, err))
		}
		if errors.Is(err, ErrNotFound) {
			return a.explainMissing(ctx, key, s.tag, err)
		}
		return err
	})
}

// explainMissing handles a segment that a head names and the store does not have:
// either another writer has merged it away since, or it is lost.
func (a *Archive) explainMissing(ctx context.Context, key, tag string, missing error) error {
	now, err := load[transcriptHead](ctx, a, key)
	if err != nil {
		return err
	}
	if now.tag != tag {
		return errors.Join(ErrChanged, missing)
	}
	return fmt.Errorf("%w: the head names a segment that is gone: %w", ErrCorrupt, missing)
}

func (a *Archive) changeOnce(ctx context.Context, session string, epoch uint64, t adapters.Transcript, key string, s stored[transcriptHead], change func(*transcriptHead, bool) (bool, error)) error {
	h := s.value.clone()
	if h.Epoch > epoch {
		return fmt.Errorf("epoch %d, transcript %s has %d: %w", epoch, t.ID, h.Epoch, ErrFenced)
	}
	if s.tag != "" && h.Kind != t.Kind {
		return fmt.Errorf("%w kind %s: the transcript is archived as %s", ErrInvalid, t.Kind, h.Kind)
	}
	// The trash must be deleted before the next head forgets it.
	if err := a.empty(ctx, session, &h); err != nil {
		return err
	}
	h.Transcript, h.Epoch = t, epoch
	changed, err := change(&h, s.tag != "")
	if err != nil || !changed {
		return err
	}
	s, err = save(ctx, a, key, stored[transcriptHead]{h, s.tag})
	if err != nil {
		return err
	}
	// The change is committed; remaining trash is left to the next writer.
	if a.empty(ctx, session, &s.value) != nil {
		a.forget(key)
		return nil
	}
	a.remember(key, s)
	return nil
}

// empty deletes the trash.
func (a *Archive) empty(ctx context.Context, session string, h *transcriptHead) error {
	var keys []string
	for _, s := range h.Trash {
		keys = append(keys, a.transcriptKey(session, h.ID)+s.String())
	}
	if err := a.remove(ctx, keys...); err != nil {
		return err
	}
	h.Trash = nil
	return nil
}

// missing returns the part of data that is behind the transcript's end; the part
// before it must be equal to what is archived.
func (a *Archive) missing(ctx context.Context, session string, h transcriptHead, start int64, data []byte) ([]byte, error) {
	if start < 0 {
		return nil, fmt.Errorf("%w start %d", ErrInvalid, start)
	}
	if start > h.Size {
		return nil, fmt.Errorf("%w: starts at %d, archived are %d bytes", ErrGap, start, h.Size)
	}
	overlap := data[:min(int64(len(data)), h.Size-start)]
	for at := start; len(overlap) > 0; {
		seg, err := a.segmentAt(ctx, session, h, at)
		if err != nil {
			return nil, err
		}
		stored, err := a.segmentBytes(ctx, session, h.ID, seg)
		if err != nil {
			return nil, err
		}
		stored = stored[at-seg.start:]
		n := min(len(overlap), len(stored))
		if !bytes.Equal(overlap[:n], stored[:n]) {
			return nil, fmt.Errorf("%w: within bytes %d to %d", ErrConflict, at, at+int64(n))
		}
		at, overlap = at+int64(n), overlap[n:]
	}
	return data[min(int64(len(data)), h.Size-start):], nil
}

// transcriptHead returns a head from the cache, or from the store.
func (a *Archive) transcriptHead(ctx context.Context, key string) (s stored[transcriptHead], cached bool, err error) {
	a.mu.Lock()
	s, cached = a.heads[key]
	a.mu.Unlock()
	if !cached {
		s, err = load[transcriptHead](ctx, a, key)
	}
	return s, cached, err
}

func (a *Archive) remember(key string, s stored[transcriptHead]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.heads) >= a.limits.cache {
		clear(a.heads) // reloading them costs one request each
	}
	a.heads[key] = s
}

func (a *Archive) forget(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.heads, key)
}
