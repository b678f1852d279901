package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// parallel is how many small objects are read at once.
const parallel = 16

// Transcripts returns the session's transcripts in the order of their ids, main
// first, without Sojourn's own. Empty for a session without any.
func (a *Archive) Transcripts(ctx context.Context, session string) ([]TranscriptInfo, error) {
	heads, err := a.transcriptHeads(ctx, session)
	if err != nil {
		return nil, fmt.Errorf("archive: transcripts of session %s: %w", session, err)
	}
	var infos []TranscriptInfo
	for _, h := range heads {
		if h.value.ID != ServerTranscript {
			infos = append(infos, h.value.info())
		}
	}
	slices.SortFunc(infos, func(x, y TranscriptInfo) int {
		if (x.ID == event.Main) != (y.ID == event.Main) {
			return map[bool]int{true: -1, false: 1}[x.ID == event.Main]
		}
		return strings.Compare(x.ID, y.ID)
	})
	return infos, nil
}

func (a *Archive) transcriptHeads(ctx context.Context, session string) ([]stored[transcriptHead], error) {
	if err := checkSession(session); err != nil {
		return nil, err
	}
	prefix := a.transcriptsKey(session)
	heads, err := loadAll[transcriptHead](ctx, a, a.list(ctx, prefix, "", true), func(folder string) string {
		return prefix + folder + "head.json"
	})
	if err != nil {
		return nil, err
	}
	// A folder without head is what a dying writer left.
	return slices.DeleteFunc(heads, func(h stored[transcriptHead]) bool { return h.tag == "" }), nil
}

// loadAll loads the JSON object of every name, in their order.
func loadAll[T any](ctx context.Context, a *Archive, all iter.Seq2[string, error], key func(name string) string) ([]stored[T], error) {
	var names []string
	for name, err := range all {
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	out := make([]stored[T], len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, name := range names {
		group.Go(func() (err error) {
			out[i], err = load[T](ctx, a, key(name))
			return err
		})
	}
	return out, group.Wait()
}

// ReadTranscript streams a transcript as it is at the call; bytes appended later
// are not in it. A segment is checked before any of its bytes is returned, and
// the whole at its end: a read fails with [ErrCorrupt] and the segment's name.
// The reader is for one goroutine and ends with ctx.
func (a *Archive) ReadTranscript(ctx context.Context, session, id string) (io.ReadCloser, error) {
	r, err := a.open(ctx, session, id)
	if err != nil {
		return nil, fmt.Errorf("archive: read transcript %s of session %s: %w", id, session, err)
	}
	return r, nil
}

func (a *Archive) open(ctx context.Context, session, id string) (*reader, error) {
	h, err := a.freshHead(ctx, session, id)
	if err != nil {
		return nil, err
	}
	r := &reader{a: a, ctx: ctx, session: session, head: h, sum: sha256.New()}
	return r, r.locate()
}

func (a *Archive) freshHead(ctx context.Context, session, id string) (transcriptHead, error) {
	if err := errors.Join(checkSession(session), checkTranscriptID(id)); err != nil {
		return transcriptHead{}, err
	}
	s, err := load[transcriptHead](ctx, a, a.transcriptKey(session, id)+"head.json")
	if err == nil && s.tag == "" {
		err = ErrNotFound
	}
	return s.value, err
}

type reader struct {
	a       *Archive
	ctx     context.Context
	session string
	// head is the transcript at the start of the read: its size and hash apply.
	head transcriptHead
	segs []segment
	at   int64
	buf  []byte
	sum  hash.Hash
	err  error
}

func (r *reader) Close() error {
	r.err, r.buf = io.ErrClosedPipe, nil
	return nil
}

func (r *reader) Read(p []byte) (int, error) {
	for len(r.buf) == 0 && r.err == nil {
		r.err = r.fill()
	}
	if len(r.buf) == 0 {
		return 0, r.err
	}
	n := copy(p, r.buf)
	r.buf = r.buf[n:]
	return n, nil
}

// fill reads the next segment, or finds the end.
func (r *reader) fill() error {
	if r.at == r.head.Size {
		return r.end()
	}
	i := slices.IndexFunc(r.segs, func(s segment) bool { return s.start <= r.at && r.at < s.end })
	if i < 0 {
		return fmt.Errorf("archive: transcript %s of session %s: %w: no segment holds byte %d", r.head.ID, r.session, ErrCorrupt, r.at)
	}
	s := r.segs[i]
	data, err := r.a.segmentBytes(r.ctx, r.session, r.head.ID, s)
	if errors.Is(err, ErrNotFound) {
		return r.follow(s)
	}
	if err != nil {
		return fmt.Errorf("archive: transcript %s of session %s: %w", r.head.ID, r.session, err)
	}
	r.buf = data[r.at-s.start : min(s.end, r.head.Size)-s.start]
	r.sum.Write(r.buf)
	r.at += int64(len(r.buf))
	return nil
}

func (r *reader) end() error {
	if got := hex.EncodeToString(r.sum.Sum(nil)); got != r.head.SHA256 {
		return fmt.Errorf("archive: transcript %s of session %s: %w: sha256 is %s, want %s", r.head.ID, r.session, ErrCorrupt, got, r.head.SHA256)
	}
	return io.EOF
}

// follow finds the bytes of a segment that was merged away during the read. A
// snapshot that was replaced is read from its start if nothing was returned yet.
func (r *reader) follow(gone segment) error {
	h, err := r.a.freshHead(r.ctx, r.session, r.head.ID)
	if err == nil && !h.differs(r.head) {
		err = fmt.Errorf("%w: segment %s is missing", ErrCorrupt, gone)
	}
	if err == nil && h.Kind == adapters.Snapshot {
		if r.at > 0 {
			err = fmt.Errorf("%w: the snapshot was replaced while it was read", ErrBusy)
		}
		r.head = h
	}
	if err == nil {
		// Size and hash remain those of the start.
		r.head.Page, r.head.Segments = h.Page, h.Segments
		err = r.locate()
	}
	if err != nil {
		return fmt.Errorf("archive: transcript %s of session %s: %w", r.head.ID, r.session, err)
	}
	return nil
}

func (r *reader) locate() (err error) {
	r.segs, err = r.a.segments(r.ctx, r.session, r.head)
	return err
}

// Sources returns the session's native transcripts for an adapter's Parse; each
// is read from the store when it is opened, in its state at that time.
func (a *Archive) Sources(ctx context.Context, session string) ([]adapters.Source, error) {
	infos, err := a.Transcripts(ctx, session)
	if err != nil {
		return nil, err
	}
	var sources []adapters.Source
	for _, info := range infos {
		sources = append(sources, adapters.Source{Transcript: info.Transcript, Open: func() (io.ReadCloser, error) {
			return a.ReadTranscript(ctx, session, info.ID)
		}})
	}
	return sources, nil
}
