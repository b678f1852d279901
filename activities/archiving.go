package activities

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
)

// archiver brings a sandbox's transcripts into the archive: what is new of
// those that only grow, the rest whole. Safe for concurrent use; one sync runs
// at a time.
type archiver struct {
	store *archive.Archive
	agent *agent

	mu sync.Mutex
	// known is what the archive has of each transcript; nil before the archive
	// was asked.
	known map[string]archive.TranscriptInfo
}

// sync archives what is new and gives which transcripts changed.
func (r *archiver) sync(ctx context.Context) ([]archive.TranscriptInfo, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	session := r.agent.launch.SessionID
	found, err := r.agent.adapter.Transcripts(newHome(ctx, r.agent.sb), r.agent.launch)
	if err == nil {
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
		} else if changed {
			grown = append(grown, info)
		}
	}
	return grown, errors.Join(errs...)
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
	if e, ok := r.agent.adapter.(adapters.Exporter); ok && t.Kind == adapters.Snapshot {
		return r.export(ctx, session, e, t)
	}
	start := r.known[t.ID].Size
	if t.Kind == adapters.Snapshot {
		start = 0
	}
	data, err := newHome(ctx, r.agent.sb).from(t.Path, start)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
		return info, false, nil
	}
	if err != nil {
		return info, false, err
	}
	if t.Kind == adapters.Append {
		// A line that is being written may yet be torn by a kill, and what is
		// archived can't be taken back.
		data = data[:bytes.LastIndexByte(data, '\n')+1]
		if len(data) == 0 {
			return info, false, nil
		}
	}
	if t.Kind == adapters.Snapshot {
		info, err = r.store.PutSnapshot(ctx, session, r.agent.epoch, t, data)
	} else {
		info, err = r.store.AppendTranscript(ctx, session, r.agent.epoch, t, start, data)
	}
	if err != nil {
		return info, false, err
	}
	return info, r.note(info), nil
}

// note remembers what the archive has, and says whether it is new.
func (r *archiver) note(info archive.TranscriptInfo) (changed bool) {
	changed = info.SHA256 != r.known[info.ID].SHA256
	r.known[info.ID] = info
	return changed
}

// syncing archives beside a running turn, one sync at a time.
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
	return &syncing{archiver: a, clock: time.NewTicker(archiveEvery), done: make(chan syncResult, 1)}
}

// due ticks while no sync is under way.
func (s *syncing) due() <-chan time.Time {
	if s.busy {
		return nil
	}
	return s.clock.C
}

// begin starts a sync, whose result comes by done.
func (s *syncing) begin(ctx context.Context) {
	s.busy = true
	go func() {
		grown, err := s.archiver.sync(ctx)
		s.done <- syncResult{grown, err}
	}()
}

// stop waits for a sync that is under way; its context must have ended.
func (s *syncing) stop() {
	s.clock.Stop()
	if s.busy {
		<-s.done
		s.busy = false
	}
}

// changed tells subscribers what the archive has of transcripts.
func changed(infos []archive.TranscriptInfo) []event.Event {
	var events []event.Event
	for _, i := range infos {
		if i.ID != archive.OwnTranscript {
			events = append(events, own(event.TranscriptChanged{Transcript: event.Transcript{ID: i.ID, Offset: i.Size, SHA256: i.SHA256}}))
		}
	}
	return events
}

func byID(a, b archive.TranscriptInfo) int { return strings.Compare(a.ID, b.ID) }
