package activities

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
)

// archiver archives a sandbox's transcripts: append-only files incrementally, the rest
// whole. Safe for concurrent use; one sync runs at a time.
type archiver struct {
	store  *archive.Archive
	agent  *host.Agent
	memory Memory
	log    *slog.Logger
	// turns counts the attempts at turns that have begun to sync.
	turns atomic.Int64

	mu sync.Mutex
	// known is what the archive has of each transcript; nil before the archive was read.
	known map[string]archive.TranscriptInfo
	// exported is how far databases are archived, by transcript.
	exported map[string]exportedTo
}

func newArchiver(store *archive.Archive, a *host.Agent, memory Memory, log *slog.Logger) *archiver {
	return &archiver{store: store, agent: a, memory: memory, log: log, exported: map[string]exportedTo{}}
}

// archiverOf returns the archiver of an agent. The turns of an agent share it, so that what
// one turn left is not archived twice at the same time.
func (h *Host) archiverOf(a *host.Agent) *archiver {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.archivers[a.Sandbox.ID()]
	if r == nil || r.agent != a {
		r = newArchiver(h.o.Archive, a, h.o.Memory, h.o.Log)
		h.archivers[a.Sandbox.ID()] = r
	}
	return r
}

// sync archives what is new and returns which transcripts changed.
func (r *archiver) sync(ctx context.Context) ([]archive.TranscriptInfo, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	session := r.agent.Launch.SessionID
	found, err := r.agent.Adapter.Transcripts(r.agent.Home(ctx), r.agent.Launch)
	if err != nil {
		err = asUnreadable(ctx, err)
	} else {
		err = r.load(ctx, session)
	}
	if err != nil {
		return nil, fmt.Errorf("archive session %s: %w", session, err)
	}
	var grown []archive.TranscriptInfo
	var errs []error
	for _, t := range found {
		info, changed, err := r.one(ctx, session, t)
		if err != nil {
			errs = append(errs, fmt.Errorf("archive session %s: %w", session, err))
		}
		if changed {
			grown = append(grown, info)
		}
	}
	return grown, errors.Join(errs...)
}

// ready reads from the archive what it has of the transcripts, unless that is known.
func (r *archiver) ready(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.load(ctx, r.agent.Launch.SessionID)
}

func (r *archiver) load(ctx context.Context, session string) error {
	if r.known != nil {
		return nil
	}
	infos, err := r.store.Transcripts(ctx, session)
	if err != nil {
		return err
	}
	r.known = map[string]archive.TranscriptInfo{}
	for _, info := range infos {
		r.known[info.ID] = info
	}
	return nil
}

func (r *archiver) one(ctx context.Context, session string, t adapters.Transcript) (info archive.TranscriptInfo, changed bool, err error) {
	if e, ok := r.agent.Adapter.(adapters.Exporter); ok && t.Kind == adapters.Snapshot {
		return r.export(ctx, session, e, t)
	}
	if t.Kind == adapters.Snapshot {
		return r.replace(ctx, session, t)
	}
	return r.appendNew(ctx, session, t)
}

// replace archives a file that is rewritten each time.
func (r *archiver) replace(ctx context.Context, session string, t adapters.Transcript) (info archive.TranscriptInfo, changed bool, err error) {
	data, err := r.agent.Home(ctx).ReadFile(t.Path, int64(r.memory.snapshot()))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
		return info, false, nil
	}
	if errors.Is(err, host.ErrTooLarge) {
		// No agent writes such a file; the rest must still be archived.
		r.log.Warn("a transcript is not archived", "session", session, "error", err)
		return info, false, nil
	}
	if err != nil {
		return info, false, asUnreadable(ctx, err)
	}
	if info, err = r.store.PutSnapshot(ctx, session, r.agent.Epoch, t, data); err != nil {
		return info, false, err
	}
	return info, r.note(info), nil
}

// note stores what the archive has, and reports whether it is new.
func (r *archiver) note(info archive.TranscriptInfo) (changed bool) {
	changed = info.SHA256 != r.known[info.ID].SHA256
	r.known[info.ID] = info
	return changed
}

// syncing archives during a turn, one sync at a time.
type syncing struct {
	archiver *archiver
	clock    *time.Ticker
	busy     bool
	done     chan syncResult
}

type syncResult struct {
	grown []archive.TranscriptInfo
	err   error
}

func newSyncing(a *archiver) *syncing {
	a.turns.Add(1)
	return &syncing{archiver: a, clock: time.NewTicker(archiveEvery), done: make(chan syncResult, 1)}
}

// due ticks while no sync is running.
func (s *syncing) due() <-chan time.Time {
	if s.busy {
		return nil
	}
	return s.clock.C
}

// begin starts a sync, whose result is sent on done.
func (s *syncing) begin(ctx context.Context) {
	s.busy = true
	go func() {
		grown, err := s.archiver.sync(ctx)
		s.done <- syncResult{grown, err}
	}()
}

// stop waits for a running sync; its context must have ended.
func (s *syncing) stop() {
	s.clock.Stop()
	if s.busy {
		<-s.done
		s.busy = false
	}
}

// changed returns the events about changed transcripts in the archive.
func changed(infos []archive.TranscriptInfo) []event.Event {
	var events []event.Event
	for _, i := range infos {
		if i.ID != archive.ServerTranscript {
			events = append(events, fromServer(event.TranscriptChanged{Transcript: event.Transcript{ID: i.ID, Offset: i.Size, SHA256: i.SHA256}}))
		}
	}
	return events
}

func byID(a, b archive.TranscriptInfo) int { return strings.Compare(a.ID, b.ID) }

// archiveEvery is how often new transcript bytes go to the archive while a turn runs.
const archiveEvery = 3 * time.Second
