package adaptertest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/runner"
)

func (r *Rig) playAPIErrors() {
	r.ok("SAY before")
	for _, status := range []int{400, 401, 429, 500, 529} {
		if r.t.Failed() {
			return
		}
		r.sub(fmt.Sprint(status), func() { r.fails(fmt.Sprintf("ERR%d", status)) })
	}
	r.recalls("SAY before")
}

// fails sends a prompt at which the model fails. Subscribers must see the failure, the
// turn ends by the agent's own rules or is interrupted, and the next prompt works.
func (r *Rig) fails(script string) {
	r.t.Helper()
	from := len(r.Events())
	idle, stopped := r.endOfFailure(script, from)
	told := troubles(r.Events()[from:])
	r.t.Logf("%s: interrupted: %v, reported: %s", script, stopped, clip(told, 300))
	if !stopped {
		require.NotNil(r.t, idle.Error, "%s", pretty(idle))
		require.NotEmpty(r.t, idle.Error.Message)
		require.NotEmpty(r.t, r.Blocks(event.BlockError), "the conversation has no error block")
	}
	if !stopped || !r.agent.RetriesSilently {
		require.NotEmpty(r.t, told, "no event reports the failure\n%s", r.tail())
	}
	r.ok("SAY well again")
	require.Contains(r.t, r.Said(), "well again")
}

// endOfFailure waits for the end of the turn. If the agent retries without an end, the
// turn is interrupted at the retry.
func (r *Rig) endOfFailure(script string, from int) (idle event.SessionIdle, stopped bool) {
	r.t.Helper()
	requests := r.Model.Stats().Total
	r.Send(script)
	if !r.agent.RetriesForever && !r.agent.RetriesSilently {
		return r.AwaitIdle(), false
	}
	ended := false
	require.Eventually(r.t, func() bool {
		events := r.Events()[from:]
		ended = slices.ContainsFunc(events, isIdle)
		silent := r.agent.RetriesSilently && r.Model.Stats().Total >= requests+2
		return ended || silent || r.agent.RetriesForever && troubles(events) != ""
	}, patience, 10*time.Millisecond, "neither an end nor a second try")
	if ended {
		return r.AwaitIdle(), false
	}
	return r.Interrupt(), true
}

// troubles returns the messages of the events that report a failure.
func troubles(events []event.Event) string {
	var out strings.Builder
	for _, e := range events {
		switch p := e.Payload.(type) {
		case event.Log:
			if p.Level == "warn" || p.Level == "error" {
				fmt.Fprintf(&out, "%s; ", p.Message)
			}
		case event.Error:
			fmt.Fprintf(&out, "%s %s; ", p.Code, p.Message)
		case event.Status:
			fmt.Fprintf(&out, "%s %s; ", p.State, p.Message)
		case event.BlockUpsert:
			if p.Block.Type == event.BlockError && p.Block.Message != nil {
				fmt.Fprintf(&out, "%s %s; ", p.Block.Code, *p.Block.Message)
			}
		}
	}
	return out.String()
}

// playAPIErrorFirst fails at the very first prompt, and continues in another process:
// some agents don't keep such a session.
func (r *Rig) playAPIErrorFirst() {
	r.fails("ERR400")
	r.Restart()
	r.fails("ERR400")
	r.recalls("well again")
}

func (r *Rig) playStreamCut() {
	r.ok("SAY before")
	r.fails("SAY kept THEN CUT")
	r.fails("CUT")
	r.recalls("SAY before")
}

// bigSize is the length of a line that must be read although its block is cut.
const bigSize = 64 << 20

func (r *Rig) playBigLine() {
	script := r.agent.Big
	if script == "" {
		script = fmt.Sprintf("BIG %d", bigSize)
	}
	r.ok(script)
	longest, told := r.longest()
	require.GreaterOrEqual(r.t, longest, bigSize, "the agent printed no line of that length")
	if r.agent.Big == "" {
		// As JSON, the text has an escape for each line end.
		line := strings.Repeat("0123456789abcdef", 4)[:63] + "\\n"
		text := strings.Repeat(line, bigSize/64)
		sum := sha256.Sum256([]byte(text))
		note := traffic.Cut{Bytes: int64(len(text)), SHA256: hex.EncodeToString(sum[:])}.String()
		require.Contains(r.t, r.Said(), note, "a body of %d bytes", len(r.Said()))
	}
	r.t.Logf("the longest line had %d bytes, the longest body in an event has %d", longest, told)
}

// longest returns the lengths of the longest line and of the longest body of an event.
func (r *Rig) longest() (line, body int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.parts {
		for _, rec := range p.records {
			line = max(line, len(rec.Line))
			if rec.Cut != nil {
				line = max(line, int(rec.Cut.Bytes))
			}
		}
	}
	for _, e := range r.events {
		if p, ok := e.Payload.(event.BlockUpsert); ok {
			body = max(body, len(p.Block.Output))
			if p.Block.Content != nil {
				body = max(body, len(*p.Block.Content))
			}
		}
	}
	return line, body
}

// slowDeltas make more records than may be in flight to one reader.
const slowDeltas = 20_000

// playSlowReader stops reading in the middle of a turn. The agent continues, another
// reader receives the end of the turn, and nothing is lost.
func (r *Rig) playSlowReader() {
	r.ok("SAY before")
	r.HoldBack()
	r.Send(fmt.Sprintf("DELTAS %d", slowDeltas))
	r.until("a reader that waits", func() bool { return r.waits })
	behind := r.besides(2) - r.at()
	r.t.Logf("%d bytes of records waited for the reader", behind)
	for range 3 {
		before := r.at()
		r.LetGo()
		r.until("some records", func() bool { return r.next > before || r.idleSeen() })
		r.HoldBack()
	}
	r.LetGo()
	r.AwaitIdle()
	var want strings.Builder
	for i := range slowDeltas {
		fmt.Fprintf(&want, "w%d ", i)
	}
	require.True(r.t, strings.TrimSpace(want.String()) == strings.TrimSpace(r.Said()), "got %d of %d bytes", len(r.Said()), want.Len())
	r.ok("SAY well")
}

// besides reads the records over another connection, up to the end of a turn.
func (r *Rig) besides(turn int) (offset int64) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	paths := r.place.paths
	conn, err := runner.Attach(ctx, r.place.sb, paths.Runner, paths.Socket, token, epoch)
	require.NoError(r.t, err)
	defer conn.Close()
	tr, err := r.agent.Adapter.Translator(r.Launch, nil)
	require.NoError(r.t, err)
	for d, err := range conn.Records(ctx, 0) {
		require.NoError(r.t, err, "the agent does not continue without a reader")
		for _, e := range tr.Step(d.Record) {
			if isIdle(e) {
				turn--
			}
		}
		if turn == 0 {
			return d.Next
		}
	}
	require.FailNow(r.t, "the agent ended without a reader")
	return 0
}

// at returns the offset of the reader.
func (r *Rig) at() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next
}

func (r *Rig) idleSeen() bool {
	return len(r.events) > 0 && isIdle(r.events[len(r.events)-1])
}

func (r *Rig) playUnknown() {
	r.ok("SAY " + r.secret())
	r.ok("THINK about it THEN TWO THEN SAY both")
	if r.agent.Adapter.Info().Capabilities.Subagents {
		r.ok("SUBAGENT SAY sub is done THEN SAY outer")
	}
	r.Restart()
	r.recalls(r.secret())
	r.mu.Lock()
	sent, events := r.unknown, slices.Clone(r.events[r.earlier.events:]) // both of one moment
	r.mu.Unlock()
	natives := 0
	for _, e := range events {
		if n, ok := e.Payload.(event.Native); ok && strings.Contains(n.Kind+string(n.Raw)+n.Line, "unheard") {
			natives++
		}
	}
	require.NotZero(r.t, sent)
	if r.agent.Unknown == nil {
		require.Equal(r.t, sent, natives, "unknown records and native events")
	}
	for _, b := range r.Live().Blocks {
		require.NotContains(r.t, pretty(b), "unheard")
	}
}
