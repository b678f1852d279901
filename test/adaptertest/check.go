package adaptertest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	store "github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/parity"
)

// Report is the result of a comparison of the live and the restored conversation.
type Report struct {
	Records, Events, Blocks, Subagents int
	Differences                        []parity.Difference
	// Errors are the errors of reading the transcripts.
	Errors []error
}

func (r Report) String() string {
	return fmt.Sprintf("%d records, %d events, %d blocks, %d subagents, %d differences",
		r.Records, r.Events, r.Blocks, r.Subagents, len(r.Differences))
}

func (r Report) equal() bool { return len(r.Differences) == 0 && len(r.Errors) == 0 }

// Parity checks that the live conversation equals the one in the home and the one in
// the archive. It waits until the agent has written its transcripts.
func (r *Rig) Parity() Report {
	r.t.Helper()
	r.sync()
	limit := time.After(patience)
	for {
		report := r.compare()
		if report.equal() {
			r.compareArchive()
			return report
		}
		if !r.alive() {
			return r.differ(report)
		}
		select {
		case <-limit:
			return r.differ(report)
		case <-time.After(20 * time.Millisecond): // only the file shows when it is written
		}
	}
}

func (r *Rig) differ(report Report) Report {
	r.t.Helper()
	r.keep()
	for _, err := range report.Errors {
		r.t.Errorf("read the transcripts: %v", err)
	}
	for i, d := range report.Differences {
		if i < 5 {
			r.t.Errorf("live and restored differ: %s", clip(d.String(), 3000))
		}
	}
	if len(report.Differences) > 5 {
		r.t.Errorf("… and %d differences more", len(report.Differences)-5)
	}
	return report
}

func (r *Rig) compare() Report {
	r.t.Helper()
	live := parity.Native(r.Live())
	restored, errs := r.restored(r.sources())
	diffs := r.differences(live, restored, r.agent.Rules)
	report := Report{Blocks: countBlocks(live), Subagents: len(live.Subagents), Differences: diffs, Errors: errs}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.torn {
		report.Errors = nil
	}
	report.Events = len(r.events)
	for _, p := range r.parts {
		report.Records += len(p.records)
	}
	return report
}

func (r *Rig) differences(live, restored reducer.State, rules parity.Rules) []parity.Difference {
	r.t.Helper()
	diffs, err := parity.Compare(shorten(live), shorten(restored), rules)
	require.NoError(r.t, err)
	return diffs
}

// shortened is the length from which texts are compared by their hash, since huge ones
// take long to encode.
const shortened = 1 << 20

func shorten(s reducer.State) reducer.State {
	s.Blocks = slices.Clone(s.Blocks)
	for i, b := range s.Blocks {
		if b.Content != nil && len(*b.Content) > shortened {
			s.Blocks[i].Content = new(digest([]byte(*b.Content)))
		}
		for _, raw := range []*json.RawMessage{&s.Blocks[i].Input, &s.Blocks[i].Output} {
			if len(*raw) > shortened {
				*raw = json.RawMessage(`"` + digest(*raw) + `"`)
			}
		}
	}
	return s
}

func digest(data []byte) string {
	return fmt.Sprintf("%d bytes of sha256 %x", len(data), sha256.Sum256(data))
}

// compareArchive checks that the archived conversation equals the live one.
func (r *Rig) compareArchive() {
	r.t.Helper()
	r.sync()
	if r.size() >= checkLimit && r.archive.same(r.place.home()) {
		return // the same bytes were just parsed from the home, and parsing huge ones again takes long
	}
	state, errs := r.restored(r.archive.sources())
	for _, err := range errs {
		r.t.Errorf("read the archive: %v", err)
	}
	for _, d := range r.differences(parity.Native(r.Live()), state, r.agent.Rules) {
		r.t.Errorf("live and archived differ: %s", clip(d.String(), 3000))
	}
}

func countBlocks(s reducer.State) int {
	n := len(s.Blocks)
	for _, sub := range s.Subagents {
		n += len(sub.Blocks)
	}
	return n
}

// Finish ends the process and checks everything that holds for every session: parity
// before and after the end, the same bytes again from the same records, unknown records
// kept, one end per prompt.
func (r *Rig) Finish() Report {
	r.t.Helper()
	if r.alive() && r.size() < checkLimit {
		r.Parity()
	}
	if r.alive() {
		r.Stop()
	}
	report := r.Parity()
	r.checkTurns()
	for _, p := range r.parts {
		r.checkPart(p)
	}
	r.mu.Lock()
	faults := r.faults
	r.mu.Unlock()
	for _, err := range faults {
		r.t.Errorf("the dialogue failed: %v", err)
	}
	r.t.Logf("%s: fresh run: %v", r.t.Name(), report)
	return report
}

// checkTurns checks that every prompt that no kill cancelled ended once.
func (r *Rig) checkTurns() {
	r.t.Helper()
	r.mu.Lock()
	got, want := r.ends(), r.due.asked-r.due.cancelled
	r.mu.Unlock()
	if got != want {
		r.t.Errorf("%d prompts ended, %d were asked", got, want)
	}
}

// size returns the length of all records.
func (r *Rig) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, p := range r.parts {
		n += p.bytes
	}
	return n
}

// checkLimit is the length of records from which the checks that read all of them
// several times are skipped.
const checkLimit = 4 << 20

func (r *Rig) checkPart(p *part) {
	r.t.Helper()
	if p.bytes > checkLimit {
		return
	}
	again := r.replay(p, nil)
	r.sameEvents("the same records give other events", p, again.said)
	r.sameMessages(p, again.written)
	cuts := map[int]bool{}
	for range 8 {
		cuts[r.random.IntN(len(p.records)+1)] = true
	}
	r.sameEvents("from a state in between come other events", p, r.replay(p, cuts).said)
	if !r.options.Unknown {
		r.checkUnknown(p)
	}
}

// replay steps a new translator through a part's records. At each cut another one
// continues from the state.
func (r *Rig) replay(p *part, cuts map[int]bool) *part {
	r.t.Helper()
	tr := r.translator(p, 0, nil)
	again := &part{}
	for i, rec := range p.records {
		if cuts[i] || p.begins(i) {
			tr = r.translator(p, i, tr)
		}
		again.said = append(again.said, tr.Step(rec))
		again.written = append(again.written, tr.Due()...)
	}
	return again
}

// begins reports whether another process of the agent starts at a record.
func (p *part) begins(at int) bool {
	return at > 0 && slices.ContainsFunc(p.starts, func(s start) bool { return s.at == at })
}

// translator creates the translator for a record, with the state of before unless that
// is nil.
func (r *Rig) translator(p *part, at int, before adapters.Translator) adapters.Translator {
	r.t.Helper()
	var state json.RawMessage
	if before != nil {
		var err error
		state, err = before.State()
		require.NoError(r.t, err)
	}
	launch := p.starts[0].launch
	for _, s := range p.starts {
		if s.at <= at {
			launch = s.launch
		}
	}
	tr, err := r.agent.Adapter.Translator(launch, state)
	require.NoError(r.t, err)
	return tr
}

func (r *Rig) sameEvents(what string, p *part, said [][]event.Event) {
	r.t.Helper()
	for i, rec := range p.records {
		want, got := encoded(r.t, p.said[i]), encoded(r.t, said[i])
		if !bytes.Equal(want, got) {
			r.t.Errorf("%s at record %d: %s\nlive  %s\nagain %s", what, i, clip(rec.Line, 800), clip(string(want), 1500), clip(string(got), 1500))
			return
		}
	}
}

// sameMessages checks that the messages that the records make due were written, with
// the same bytes.
func (r *Rig) sameMessages(p *part, due []adapters.Message) {
	r.t.Helper()
	for _, m := range due {
		at := slices.IndexFunc(p.written, func(w adapters.Message) bool { return w.ID == m.ID })
		switch {
		case at < 0:
			r.t.Errorf("message %q is due by the records, and was not written", m.ID)
		case !bytes.Equal(p.written[at].Data, m.Data):
			r.t.Errorf("message %q differs:\nlive  %s\nagain %s", m.ID, clip(string(p.written[at].Data), 800), clip(string(m.Data), 800))
		}
	}
}

// checkUnknown inserts unknown records among the real ones. They must be kept as native
// events, and nothing else may change.
func (r *Rig) checkUnknown(p *part) {
	r.t.Helper()
	tr := r.translator(p, 0, nil)
	for i, rec := range p.records {
		if p.begins(i) {
			tr = r.translator(p, i, tr)
		}
		if rec.Dir == event.DirOut && r.random.IntN(4) == 0 {
			line := r.agent.unknown(r.random)
			r.onlyNative(line, tr.Step(traffic.Record{TS: rec.TS, Dir: event.DirOut, Line: line}))
		}
		want, got := encoded(r.t, p.said[i]), encoded(r.t, tr.Step(rec))
		if !bytes.Equal(want, got) {
			r.t.Errorf("unknown records change what record %d means: %s\nwithout %s\nwith    %s",
				i, clip(rec.Line, 800), clip(string(want), 1500), clip(string(got), 1500))
			return
		}
	}
}

func (r *Rig) onlyNative(line string, events []event.Event) {
	r.t.Helper()
	if len(events) != 1 || !Is[event.Native](events[0]) {
		r.t.Errorf("an unknown record is not one native event: %s\n%s", line, encoded(r.t, events))
		return
	}
	kept := events[0].Payload.(event.Native)
	if string(kept.Raw) != line && kept.Line != line {
		r.t.Errorf("an unknown record is not kept as it came: %s\n%s", line, encoded(r.t, events))
	}
}

func encoded(t require.TestingT, events []event.Event) []byte {
	out := []byte("[")
	for _, e := range events {
		var err error
		out, err = event.AppendEvent(out, e)
		require.NoError(t, err)
		out = append(out, '\n')
	}
	return out
}

// WithSide checks that the records, with the subagents' files beside them, have
// everything that the transcripts have. It is for sessions of one sandbox.
func (r *Rig) WithSide() {
	r.t.Helper()
	require.Len(r.t, r.parts, 1)
	sources := r.sources()
	r.mu.Lock()
	records := slices.Clone(r.parts[0].records)
	r.mu.Unlock()
	all := func(yield func(traffic.Record, error) bool) {
		for _, rec := range records {
			if !yield(rec, nil) {
				return
			}
		}
	}
	live, err := reducer.Fold(adapters.Translate(r.agent.Adapter, all, adapters.TranslateOptions{Side: sources}))
	require.NoError(r.t, err)
	// Subagents are in the order of their files here, and not in that of the stream.
	own := slices.DeleteFunc(r.entries(), func(e store.ServerEntry) bool {
		_, places := e.Event.Payload.(event.BlockPlaced)
		return places && e.Anchor.ConversationID != event.Main
	})
	restored, errs := r.merged(sources, own)
	require.Empty(r.t, errs)
	strict := parity.Rules{UngivenPrefix: r.agent.Rules.UngivenPrefix}
	for _, d := range r.differences(parity.Native(live), restored, strict) {
		r.t.Errorf("with the subagents' files beside the stream: %s", clip(d.String(), 3000))
	}
}

// KeepVariable names a folder to which the records and the home of sessions with
// differences are copied.
const KeepVariable = "SOJOURN_KEEP"

func (r *Rig) keep() {
	r.t.Helper()
	dir := os.Getenv(KeepVariable)
	if dir == "" {
		return
	}
	dir = filepath.Join(dir, strings.ReplaceAll(r.t.Name(), "/", "_"))
	require.NoError(r.t, os.RemoveAll(dir))
	require.NoError(r.t, os.MkdirAll(dir, 0o700))
	require.NoError(r.t, os.CopyFS(filepath.Join(dir, "home"), os.DirFS(r.place.paths.Home)))
	restored, _ := r.parse()
	for name, state := range map[string]reducer.State{"live": r.Live(), "restored": restored} {
		require.NoError(r.t, os.WriteFile(filepath.Join(dir, name+".json"), []byte(pretty(state)), 0o600))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, p := range r.parts {
		var out []byte
		for _, rec := range p.records {
			out = append(traffic.Append(out, rec), '\n')
		}
		require.NoError(r.t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("records-%d.jsonl", i)), out, 0o600))
	}
}
