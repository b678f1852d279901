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

// The bounds of what is waited for. Nothing is judged by them but that a thing
// came to its end.
const (
	// turnPatience lets a turn lose several hosts.
	turnPatience  = 6 * time.Minute
	closePatience = 4 * time.Minute
	askPatience   = 20 * time.Second
)

// sitting is a session under test and all that is learned of it.
type sitting struct {
	d     *driver
	n     int
	id    string
	agent string

	// hostile marks a session of [HostileTool].
	hostile bool
	began   time.Time

	handle *session.Handle
	sub    *subscriber

	mu    sync.Mutex
	turns []Turn
	// open is the index of the turn that runs, -1 for none.
	open int
	// found are the faults that were seen on the way.
	found []Finding
}

// sit makes a session and subscribes to it.
func (d *driver) sit(ctx context.Context, n int, agent string) (*sitting, error) {
	s := &sitting{d: d, n: n, agent: agent, id: fmt.Sprintf("%s%d-%03d-%s", d.prefix, d.o.Seed, n, agent), open: -1, began: time.Now()}
	err := insist(ctx, func(ctx context.Context) (err error) {
		s.handle, err = d.stack.Client.Open(ctx, s.id, session.Options{Agent: agent})
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

// insist tries again what a part that is away hindered.
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

// say sends a message, until it is accepted, and waits for its end. It says
// whether the end came.
func (s *sitting) say(ctx context.Context, script string) bool {
	s.mu.Lock()
	m := messageMark(s.n, len(s.turns))
	t := Turn{Mark: m, Script: script, Message: s.id + "-" + m}
	s.mu.Unlock()
	if s.hostile {
		t.Hits = hostileHit()
	}
	// A message whose receipt did not come may have been accepted: it is sent
	// under the same id until the receipt is there.
	s.begin(t)
	defer s.end()
	var r session.Receipt
	sent := time.Now()
	err := insist(ctx, func(ctx context.Context) (err error) {
		r, err = s.handle.Send(ctx, session.Message{ID: t.Message, Text: fill(script, m)})
		return err
	})
	if err != nil {
		s.fault(Stuck, "%s was not accepted: %v", m, err)
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	for {
		short, done := context.WithTimeout(ctx, askPatience)
		heard := s.sub.until(short, func(h Heard) bool { _, ok := session.ResultOf(h.Event, t.Message); return ok })
		done()
		if heard || ctx.Err() != nil {
			return heard
		}
		if len(s.d.deletions(sent)) > 0 && s.asked(ctx, r) {
			return true
		}
	}
}

// asked asks the workflow for the end of the open turn, which was lost with the
// stream before the subscriber had read it. It reports whether there is one.
func (s *sitting) asked(ctx context.Context, r session.Receipt) bool {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	res, err := s.handle.Result(ctx, r.ExecutionID)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns[s.open].Asked = &res
	return true
}

func (s *sitting) begin(t Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns = append(s.turns, t)
	s.open = len(s.turns) - 1
}

func (s *sitting) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = -1
}

// running is the mark of the open turn.
func (s *sitting) running() (mark string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open < 0 {
		return "", false
	}
	return s.turns[s.open].Mark, true
}

// hit notes a kill on the turn that is open.
func (s *sitting) hit(h Hit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= 0 {
		t := &s.turns[s.open]
		t.Hits = append(t.Hits, h)
	}
}

func (s *sitting) fault(f Fault, format string, args ...any) {
	told := s.told()
	s.mu.Lock()
	defer s.mu.Unlock()
	found := told.finding(f, told.kind(), format, args...)
	s.found = append(s.found, found)
	s.d.say("found: %.300s", found)
	if err := s.d.keep(told, s.found); err != nil {
		s.d.say("evidence: %v", err)
	}
}

// told is the session as it was seen so far.
func (s *sitting) told() Told {
	heard, announced, _ := s.sub.all()
	s.mu.Lock()
	defer s.mu.Unlock()
	turns := slices.Clone(s.turns)
	for i := range turns {
		turns[i].Hits = slices.Clone(turns[i].Hits)
	}
	return Told{ID: s.id, Agent: s.agent, Turns: turns, Heard: heard, Announced: announced, Deleted: s.d.deletions(s.began)}
}

// finish closes the session and holds its archive against its agent's files and
// against what was seen live.
func (s *sitting) finish(ctx context.Context) {
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
		// Lost right behind an answer, with what was not archived yet: the
		// conversation says so, which was just compared.
		before = nil
	}
	s.transcripts(ctx, before)
}

// rules are what agents are known not to keep (docs/agents.md).
var rules = map[string]parity.Rules{"codex": {CallsAtOnce: true}}

// compare holds the live conversation against the restored one.
func (s *sitting) compare(ctx context.Context) {
	live, err := s.d.stack.Client.Show(ctx, s.id, session.FromStream)
	if err != nil {
		s.fault(Differs, "show from the stream: %v", err)
		return
	}
	restored, err := s.d.stack.Client.Show(ctx, s.id, session.FromArchive)
	if err != nil {
		s.fault(Differs, "show from the archive: %v", err)
		return
	}
	for _, f := range restored.Faults {
		s.fault(Torn, "%s", f)
	}
	differences, err := parity.Compare(live.State, restored.State, rules[s.agent])
	if err != nil {
		s.fault(Differs, "%v", err)
	}
	for _, d := range differences[:min(len(differences), 3)] {
		s.fault(Differs, "%s", short2(d.String()))
	}
}

// complete checks that the archive has every message: for a session whose live
// side was deleted that is what can be asked.
func (s *sitting) complete(ctx context.Context) {
	restored, err := s.d.stack.Client.Show(ctx, s.id, session.FromArchive)
	if err != nil {
		s.fault(Differs, "show from the archive: %v", err)
		return
	}
	for _, f := range restored.Faults {
		s.fault(Torn, "%s", f)
	}
	s.readAnswers(restored.State)
	for _, t := range s.told().Turns {
		asked := func(b event.Block) bool {
			return b.Type == event.BlockUserMessage && b.Content != nil && strings.Contains(*b.Content, t.Mark)
		}
		if !slices.ContainsFunc(restored.State.Blocks, asked) {
			s.fault(Differs, "%s is not in the archive: it %s", t.Mark, s.endOf(t))
		}
	}
}

// readAnswers reads the answers of which the workflow has the beginning only from
// the archive, where the whole is. One that is not there stays as it is, and is
// then another than the undisturbed run's.
func (s *sitting) readAnswers(restored reducer.State) {
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

// endOf is how a message ended, in words.
func (s *sitting) endOf(t Turn) string {
	all := ends(s.told(), t.Message)
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

// written are the files that a transcript may be, by their paths in the agent's
// home. Which of them are transcripts the archive says after the close: an agent
// may leave others beside them. A database is archived by its rows, so its bytes
// say nothing. None when no living host has the sandbox.
func (s *sitting) written(h *host) map[string][]byte {
	if h == nil {
		return nil
	}
	out := map[string][]byte{}
	homes, _ := filepath.Glob(filepath.Join(h.dir, "sandboxes", s.id+"-*", "home"))
	for _, home := range homes {
		_ = filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() || filepath.Ext(path) != ".jsonl" {
				return nil // what went away while it was looked at is not held against anyone
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

// transcripts checks what lies in the archive: whole lines, and byte for byte
// what the agent had written before the close.
func (s *sitting) transcripts(ctx context.Context, before map[string][]byte) {
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

// torn says what is wrong with a transcript, "" for nothing. before is what the
// agent had written, nil when that is not known.
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
