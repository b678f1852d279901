package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/parity"
)

// Bounds of the waits. The only fault that they can cause is Stuck.
const (
	// turnPatience is how long a turn may take from its message, or from the last kill
	// that ended its agent: on a slow machine a turn that loses three hosts waits for
	// three leases and three starts of its agent.
	turnPatience  = 6 * time.Minute
	closePatience = 4 * time.Minute
	askPatience   = 20 * time.Second
)

// testCase is a session under test and what is known of it.
type testCase struct {
	d     *driver
	n     int
	id    string
	agent string

	// hostile marks a session of [HostileTool].
	hostile bool
	manner  manner
	began   time.Time

	handle *session.Handle
	sub    *subscriber

	mu    sync.Mutex
	turns []Turn
	// open are the indices of the turns that have no end yet.
	open []int
	// found are the faults found while it ran.
	found []Finding
}

// open opens a session and subscribes to it.
func (d *driver) open(ctx context.Context, n int, agent string) (*testCase, error) {
	s := &testCase{d: d, n: n, agent: agent, id: fmt.Sprintf("%s%d-%03d-%s", d.prefix, d.o.Seed, n, agent), manner: d.mannerOf(n), began: time.Now()}
	err := insist(ctx, func(ctx context.Context) (err error) {
		s.handle, err = d.stack.Client.Open(ctx, s.id, s.manner.options(agent))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", s.id, err)
	}
	rng := rand.New(rand.NewPCG(d.o.Seed, uint64(n)|1<<62))
	s.sub = subscribe(ctx, d.stack.Client, s.id, rng, func(event.Event) { d.heard() }, func() bool { return len(d.deletions(s.began)) > 0 })
	d.join(s)
	return s, nil
}

// insist retries f while a part of the system is unavailable.
func insist(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	for {
		short, done := context.WithTimeout(ctx, askPatience)
		err := f(short)
		done()
		if err == nil || ctx.Err() != nil {
			return err
		}
		wait(ctx, 200*time.Millisecond)
	}
}

// say sends a message, until it is accepted, and waits for its end. It reports whether
// the end was received.
func (s *testCase) say(ctx context.Context, script string) bool {
	t := Turn{Script: script}
	if s.hostile {
		t.Hits = hostileHit()
	}
	at := s.begin(t)
	defer s.end(at)
	r, accepted := s.send(ctx, at, session.BusyQueue)
	return accepted && s.await(ctx, at, r)
}

// send sends a turn's message. Without a receipt the message may still have been
// accepted, so it is sent again under the same id until there is one.
func (s *testCase) send(ctx context.Context, at int, busy session.BusyPolicy) (r session.Receipt, accepted bool) {
	t := s.turn(at)
	err := insist(ctx, func(ctx context.Context) (err error) {
		r, err = s.handle.Send(ctx, session.Message{ID: t.Message, Text: fill(t.Script, t.Mark), WhenBusy: busy})
		return err
	})
	if err != nil {
		s.fault(Stuck, "%s was not accepted: %v", t.Mark, err)
	}
	return r, err == nil
}

// await waits for a turn's end, and reports whether it was received.
func (s *testCase) await(ctx context.Context, at int, r session.Receipt) bool {
	t := s.turn(at)
	for began := time.Now(); ctx.Err() == nil && time.Now().Before(s.turn(at).due(began)); {
		short, done := context.WithTimeout(ctx, askPatience)
		heard := s.sub.until(short, func(h Heard) bool { return endsMessage(h, t.Message) })
		done()
		if heard || len(s.d.deletions(t.sent)) > 0 && s.asked(ctx, at, r) {
			return true
		}
	}
	if ctx.Err() == nil {
		s.overdue(at)
	}
	return false
}

// overdue records that a turn takes too long. It is cut off by the close of its session.
func (s *testCase) overdue(at int) {
	s.mu.Lock()
	s.turns[at].Overdue = true
	mark := s.turns[at].Mark
	s.mu.Unlock()
	s.fault(Stuck, "%s had no end %s after it was sent and any kill had ended its agent", mark, turnPatience)
}

// asked queries the workflow for the end of a turn whose event was deleted with the
// stream before the subscriber had read it. It reports whether there is one.
func (s *testCase) asked(ctx context.Context, at int, r session.Receipt) bool {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	res, err := s.handle.Result(ctx, r.ExecutionID)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns[at].Asked = &res
	return true
}

// begin records a turn under the next mark, and returns its index.
func (s *testCase) begin(t Turn) (at int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at = len(s.turns)
	t.Mark, t.sent = messageMark(s.n, at), time.Now()
	t.Message = s.id + "-" + t.Mark
	s.turns, s.open = append(s.turns, t), append(s.open, at)
	return at
}

func (s *testCase) end(at int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = slices.DeleteFunc(s.open, func(i int) bool { return i == at })
}

func (s *testCase) turn(at int) Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turns[at]
}

// running returns the mark of the first open turn.
func (s *testCase) running() (mark string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) == 0 {
		return "", false
	}
	return s.turns[s.open[0]].Mark, true
}

// hit records a kill for the turns that are open.
func (s *testCase) hit(h Hit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.open {
		s.turns[at].Hits = append(s.turns[at].Hits, h)
	}
}

func (s *testCase) fault(f Fault, format string, args ...any) {
	seen := s.observed()
	s.mu.Lock()
	defer s.mu.Unlock()
	found := seen.finding(f, seen.kind(), format, args...)
	s.found = append(s.found, found)
	s.d.say("found: %.300s", found)
	if err := s.d.keep(seen, s.found); err != nil {
		s.d.say("evidence: %v", err)
	}
}

// observed returns the session as observed so far.
func (s *testCase) observed() Observed {
	heard, announced, _ := s.sub.all()
	s.mu.Lock()
	defer s.mu.Unlock()
	turns := slices.Clone(s.turns)
	for i := range turns {
		turns[i].Hits = slices.Clone(turns[i].Hits)
	}
	return Observed{ID: s.id, Agent: s.agent, Turns: turns, Heard: heard, Announced: announced, Deleted: s.d.deletions(s.began)}
}

// finish closes the session and compares its archive with its agent's files and with
// the events that the subscriber received.
func (s *testCase) finish(ctx context.Context) {
	defer s.d.leave(s)
	on := s.d.hosts.of(s.id)
	before := s.written(on)
	ctx, cancel := context.WithTimeout(ctx, closePatience)
	defer cancel()
	var err error
	for ctx.Err() == nil {
		short, done := context.WithTimeout(ctx, askPatience)
		err = s.handle.Close(short)
		done()
		if err == nil {
			break
		}
	}
	if err != nil {
		s.fault(Stuck, "close: %v", err)
		return
	}
	if !s.sub.until(ctx, func(h Heard) bool { _, ok := h.Payload.(event.SessionClosed); return ok }) {
		_, _, err := s.sub.all()
		s.fault(Gap, "the subscriber never heard that the session closed: %v", err)
	}
	if s.hostile {
		return
	}
	if len(s.d.deletions(s.began)) > 0 {
		s.complete(ctx)
	} else {
		s.compare(ctx)
	}
	if on != nil && on.lost() {
		// The host was lost right after an answer, with what was not archived yet. The
		// conversation has a block about that, and it was compared above.
		before = nil
	}
	s.transcripts(ctx, before)
}

// compare compares the live conversation with the restored one.
func (s *testCase) compare(ctx context.Context) {
	live, err := s.d.stack.Client.Show(ctx, s.id, session.FromStream)
	if err != nil {
		s.fault(Differs, "show from the stream: %v", err)
		return
	}
	restored, ok := s.restored(ctx)
	if !ok {
		return
	}
	differences, err := parity.Compare(live.State, restored.State, parity.Rules{})
	if err != nil {
		s.fault(Differs, "%v", err)
	}
	for _, d := range differences[:min(len(differences), 3)] {
		s.fault(Differs, "%s", short2(d.String()))
	}
}

// restored returns the conversation from the archive, and reports what is damaged there.
func (s *testCase) restored(ctx context.Context) (c session.Conversation, ok bool) {
	c, err := s.d.stack.Client.Show(ctx, s.id, session.FromArchive)
	if err != nil {
		s.fault(Differs, "show from the archive: %v", err)
		return c, false
	}
	for _, f := range c.Faults {
		s.fault(Torn, "%s", f)
	}
	return c, true
}

// complete checks that the archive has every message. Nothing more can be checked for a
// session whose stream was deleted.
func (s *testCase) complete(ctx context.Context) {
	restored, ok := s.restored(ctx)
	if !ok {
		return
	}
	s.readAnswers(restored.State)
	for _, t := range s.observed().Turns {
		asked := func(b event.Block) bool {
			return b.Type == event.BlockUserMessage && b.Content != nil && strings.Contains(*b.Content, t.Mark)
		}
		if !slices.ContainsFunc(restored.State.Blocks, asked) {
			s.fault(Differs, "%s is not in the archive: it %s", t.Mark, s.endOf(t))
		}
	}
}

// readAnswers reads answers that the workflow has truncated from the archive, which has
// them whole. One that is not in the archive stays truncated, and then differs from the
// undisturbed run's.
func (s *testCase) readAnswers(restored reducer.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, t := range s.turns {
		if t.Asked == nil || t.Asked.Result == nil || !t.Asked.Result.Truncated {
			continue
		}
		r, asked := *t.Asked.Result, *t.Asked
		for _, b := range restored.Blocks {
			if b.ID == r.ResponseBlockID && b.Content != nil && strings.HasPrefix(*b.Content, strings.TrimSuffix(r.Response, "…")) {
				r.Response, r.Truncated = *b.Content, false
			}
		}
		asked.Result = &r
		s.turns[i].Asked = &asked
	}
}

// endOf returns how a message ended, in words.
func (s *testCase) endOf(t Turn) string {
	all := ends(s.observed(), t.Message)
	if len(all) == 0 && t.Asked != nil {
		all = append(all, *t.Asked)
	}
	switch {
	case len(all) == 0:
		return "has no end"
	case all[0].Error != nil:
		return fmt.Sprintf("%s: %s: %s; it met %v", all[0].Outcome, all[0].Error.Code, all[0].Error.Message, t.Hits)
	}
	return fmt.Sprintf("%s; it met %v", all[0].Outcome, t.Hits)
}

func short2(s string) string { return strings.ReplaceAll(s[:min(len(s), 400)], "\n", " ") }

// written returns the files that may be transcripts, by their paths in the agent's
// home. The archive lists after the close which of them are transcripts: an agent may
// leave other files beside them. A database is archived by its rows, so its bytes can't
// be compared. It returns nil if no living host has the sandbox.
func (s *testCase) written(h *host) map[string][]byte {
	if h == nil {
		return nil
	}
	out := map[string][]byte{}
	homes, _ := filepath.Glob(filepath.Join(h.dir, "sandboxes", s.id+"-*", "home"))
	for _, home := range homes {
		_ = filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() || filepath.Ext(path) != ".jsonl" {
				return nil // a file removed meanwhile is no fault
			}
			if data, err := os.ReadFile(path); err == nil {
				rel, _ := filepath.Rel(home, path)
				out[rel] = data
			}
			return nil
		})
	}
	return out
}

// transcripts checks that the archived transcripts have whole lines and are byte for
// byte what the agent had written before the close.
func (s *testCase) transcripts(ctx context.Context, before map[string][]byte) {
	infos, err := s.d.stack.Archive.Transcripts(ctx, s.id)
	if err != nil {
		s.fault(Torn, "list transcripts: %v", err)
		return
	}
	for _, i := range infos {
		if i.Kind != adapters.Append {
			continue
		}
		rc, err := s.d.stack.Archive.ReadTranscript(ctx, s.id, i.ID)
		if err != nil {
			s.fault(Torn, "transcript %s: %v", i.ID, err)
			continue
		}
		data, err := io.ReadAll(rc)
		rc.Close()
		if err != nil {
			s.fault(Torn, "transcript %s: %v", i.ID, err)
			continue
		}
		if detail := torn(i.Path, data, before[i.Path]); detail != "" {
			s.fault(Torn, "transcript %s: %s", i.ID, detail)
		}
	}
}

// torn returns what is wrong with a transcript, "" if nothing is. before is what the
// agent had written, nil if that is not known.
func torn(path string, data, before []byte) string {
	if !bytes.HasPrefix(data, before) {
		n := 0
		for n < min(len(data), len(before)) && data[n] == before[n] {
			n++
		}
		return fmt.Sprintf("%d bytes in the archive, %d in the sandbox, not the same from byte %d on", len(data), len(before), n)
	}
	if ext := filepath.Ext(path); ext != ".jsonl" && ext != ".db" {
		return ""
	}
	for n, line := range bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) {
		if !json.Valid(line) {
			return fmt.Sprintf("line %d of %d is torn: %.80q", n+1, bytes.Count(data, []byte("\n")), line)
		}
	}
	return ""
}
