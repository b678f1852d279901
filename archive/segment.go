package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
)

// clone returns a copy whose slices may be changed.
func (h transcriptHead) clone() transcriptHead {
	h.Segments, h.Trash = slices.Clone(h.Segments), slices.Clone(h.Trash)
	return h
}

// grow appends data to the transcript: as a new segment, or merged with the
// segments before it that are not larger. The objects exist when it returns, but
// don't count until the head is swapped.
func (a *Archive) grow(ctx context.Context, session string, epoch uint64, h *transcriptHead, data []byte) error {
	if h.Size == 0 {
		h.SHA256 = hex.EncodeToString(sha256.New().Sum(nil))
	}
	if len(data) == 0 {
		return nil
	}
	from := a.mergeFrom(h.Segments, int64(len(data)))
	head, err := a.join(ctx, session, h.ID, h.Segments[from:], len(data))
	if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNotFound) {
		// Readers report what is broken; new bytes are stored all the same.
		from, err = len(h.Segments), nil
	}
	if err != nil {
		return err
	}
	at, joined := h.Size-int64(len(head)), data
	if len(head) > 0 {
		joined = append(head, data...)
	}
	fresh, err := a.putSegments(ctx, session, h.ID, segment{epoch: epoch, start: at}, joined, a.limits.segment)
	if err != nil {
		return err
	}
	h.Trash = append(h.Trash, h.Segments[from:]...)
	h.Segments = append(h.Segments[:from], fresh...)
	if err := h.extend(data); err != nil {
		return err
	}
	return a.turnPages(ctx, session, epoch, h)
}

// mergeFrom returns which of the last segments are merged with n new bytes: those
// of the same size class or below, as in a binary counter. So a byte is copied
// once for each doubling, and not at all once its segment is full.
func (a *Archive) mergeFrom(segs []segment, n int64) int {
	i := len(segs)
	for i > 0 && class(segs[i-1].size()) <= class(n) && n+segs[i-1].size() <= a.limits.segment {
		i--
		n += segs[i].size()
	}
	return i
}

func class(size int64) int { return bits.Len64(uint64(size)) }

// join reads segments into one slice, which has room for n bytes more.
func (a *Archive) join(ctx context.Context, session, id string, segs []segment, n int) (all []byte, err error) {
	for _, s := range segs {
		n += int(s.size())
	}
	for _, s := range segs {
		if all == nil {
			all = make([]byte, 0, n)
		}
		data, err := a.segmentBytes(ctx, session, id, s)
		if err != nil {
			return nil, err
		}
		all = append(all, data...)
	}
	return all, nil
}

// putSegments writes data as segments of at most size bytes; like has their
// epoch, revision and start.
func (a *Archive) putSegments(ctx context.Context, session, id string, like segment, data []byte, size int64) (segs []segment, err error) {
	for piece := range slices.Chunk(data, int(size)) {
		like.end, like.sum = like.start+int64(len(piece)), sha256.Sum256(piece)
		if err := a.putNew(ctx, a.transcriptKey(session, id)+like.String(), piece); err != nil {
			return nil, err
		}
		segs = append(segs, like)
		like.start = like.end
	}
	return segs, nil
}

// putNew writes an object whose name is derived from its content: an existing one
// is the same. A store may also refuse a put because another one of the object is
// under way, which may fail yet.
func (a *Archive) putNew(ctx context.Context, key string, data []byte) (err error) {
	for wait := firstPutWait; wait <= lastPutWait; wait *= 2 {
		if _, err = a.swap(ctx, key, "", data); !errors.Is(err, ErrChanged) {
			return err
		}
		if _, _, missing := a.get(ctx, key); !errors.Is(missing, ErrNotFound) {
			return missing
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// Waits before an object is put again whose other put was under way.
const (
	firstPutWait = 50 * time.Millisecond
	lastPutWait  = 2 * time.Second
)

// segmentBytes reads a segment and checks it.
func (a *Archive) segmentBytes(ctx context.Context, session, id string, s segment) ([]byte, error) {
	return a.checked(ctx, a.transcriptKey(session, id)+s.String(), s)
}

func (a *Archive) checked(ctx context.Context, key string, s segment) ([]byte, error) {
	data, _, err := a.get(ctx, key)
	if err != nil {
		return nil, err
	}
	if got := sha256.Sum256(data); got != s.sum {
		return nil, fmt.Errorf("%w: %s holds %d bytes of sha256 %x", ErrCorrupt, key, len(data), got)
	}
	return data, nil
}

// page lists full segments that no merge will touch again. A page never
// changes; it names the one before it.
type page struct {
	Prev     *segment  `json:"prev,omitempty"`
	Segments []segment `json:"segments"`
}

// turnPages moves full segments from the head to a page if there are enough.
func (a *Archive) turnPages(ctx context.Context, session string, epoch uint64, h *transcriptHead) error {
	for a.full(h.Segments) >= a.limits.page {
		p := page{Prev: h.Page, Segments: h.Segments[:a.limits.page]}
		data, err := json.Marshal(p)
		if err != nil {
			return fmt.Errorf("encode page: %w", err)
		}
		name := segment{epoch: epoch, start: p.Segments[0].start, end: p.Segments[len(p.Segments)-1].end, sum: sha256.Sum256(data)}
		if err := a.putNew(ctx, a.pageKey(session, h.ID, name), data); err != nil {
			return err
		}
		h.Page, h.Segments = &name, h.Segments[a.limits.page:]
	}
	return nil
}

func (a *Archive) pageKey(session, id string, name segment) string {
	return a.transcriptKey(session, id) + "pages/" + name.String()
}

// full counts the first segments that no merge can reach: a merge takes all that
// follow, and those would be too much.
func (a *Archive) full(segs []segment) int {
	sum, i := int64(0), len(segs)
	for i > 0 && sum+segs[i-1].size() <= a.limits.segment {
		i--
		sum += segs[i].size()
	}
	return i
}

// segments returns all segments of a transcript, pages included.
func (a *Archive) segments(ctx context.Context, session string, h transcriptHead) ([]segment, error) {
	runs := [][]segment{h.Segments}
	for name := h.Page; name != nil; {
		p, err := a.page(ctx, session, h.ID, *name)
		if err != nil {
			return nil, err
		}
		runs, name = append(runs, p.Segments), p.Prev
	}
	slices.Reverse(runs)
	return slices.Concat(runs...), nil
}

func (a *Archive) page(ctx context.Context, session, id string, name segment) (p page, err error) {
	key := a.pageKey(session, id, name)
	data, err := a.checked(ctx, key, name)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(data, &p); err != nil || len(p.Segments) == 0 {
		return p, fmt.Errorf("%s: %w: %w", key, ErrCorrupt, err)
	}
	return p, nil
}

// segmentAt returns the segment that holds a byte before the transcript's end.
func (a *Archive) segmentAt(ctx context.Context, session string, h transcriptHead, at int64) (segment, error) {
	segs := h.Segments
	for name := h.Page; name != nil && at < name.end; {
		p, err := a.page(ctx, session, h.ID, *name)
		if err != nil {
			return segment{}, err
		}
		segs, name = p.Segments, p.Prev
	}
	i := slices.IndexFunc(segs, func(s segment) bool { return at < s.end })
	return segs[i], nil
}

// maxPieces bounds the head of a snapshot.
const maxPieces = 64

// PutSnapshot replaces the content of a snapshot-kind transcript as a whole:
// readers see the old one or the new one. Repeating the same content costs no
// put. data is not retained. Errors: [ErrFenced].
func (a *Archive) PutSnapshot(ctx context.Context, session string, epoch uint64, t adapters.Transcript, data []byte) (info TranscriptInfo, err error) {
	if err := checkTranscript(t, adapters.Snapshot); err != nil {
		return info, fmt.Errorf("archive: put snapshot: %w", err)
	}
	digest := sha256.Sum256(data)
	sum := hex.EncodeToString(digest[:])
	err = a.changeTranscript(ctx, session, epoch, t, func(h *transcriptHead, exists bool) (changed bool, err error) {
		if !exists || h.SHA256 != sum {
			changed, err = true, a.replace(ctx, session, epoch, h, sum, data)
		}
		info = h.info()
		return changed, err
	})
	if err != nil {
		return info, fmt.Errorf("archive: put snapshot %s of session %s: %w", t.ID, session, err)
	}
	return info, nil
}

func (a *Archive) replace(ctx context.Context, session string, epoch uint64, h *transcriptHead, sum string, data []byte) error {
	h.Rev++
	size := max(a.limits.segment, int64(len(data))/maxPieces+1)
	segs, err := a.putSegments(ctx, session, h.ID, segment{epoch: epoch, rev: h.Rev}, data, size)
	if err != nil {
		return err
	}
	h.Trash, h.Segments = append(h.Trash, h.Segments...), segs
	h.Size, h.SHA256 = int64(len(data)), sum
	return nil
}

// differs reports whether two heads name different objects.
func (h transcriptHead) differs(o transcriptHead) bool {
	return !bytes.Equal(names(h.Segments), names(o.Segments)) || h.Size != o.Size || h.Rev != o.Rev
}

func names(segs []segment) (b []byte) {
	for _, s := range segs {
		b = append(append(b, s.String()...), '\n')
	}
	return b
}
