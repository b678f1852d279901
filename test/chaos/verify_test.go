package chaos

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/session"
)

var (
	noon  = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	usual = normals{"claude": {scripts[0]: {Requests: 2, Answer: "{m} done"}}}
)

// heardAt numbers payloads, one second apart.
func heardAt(payloads ...event.Payload) []Heard {
	var out []Heard
	for i, p := range payloads {
		out = append(out, Heard{event.Event{Payload: p, Context: event.Context{Seq: uint64(i + 1)}}, noon.Add(time.Duration(i) * time.Second)})
	}
	return out
}

func fenceOf(attempt int) event.Payload { return event.Status{State: "x", Epoch: 1, Attempt: attempt} }

func query(answer string) (begun, done, failed event.Payload) {
	q := event.Query{ExecutionID: "x1", MessageIDs: []string{"m1"}}
	begun = event.QueryStarted{Query: q}
	q.Result = &event.QueryResult{Response: answer}
	done = event.QueryCompleted{Query: q}
	q.Result, q.Error = nil, &event.ErrorInfo{Code: "AgentFailed", Message: "it died"}
	return begun, done, event.QueryFailed{Query: q}
}

// seen returns a session with one turn of two requests.
func seen(hits []Kind, heard []Heard) Observed {
	turn := Turn{Mark: "q1q", Script: scripts[0], Message: "m1", Requests: 2}
	for _, k := range hits {
		turn.Hits = append(turn.Hits, Hit{k, noon.Add(time.Millisecond)})
	}
	return Observed{ID: "s", Agent: "claude", Turns: []Turn{turn}, Heard: heard}
}

// deletedBehind deletes the stream after the received events of a session.
func deletedBehind(heard int, s Observed) Observed {
	s.Deleted = []time.Time{noon.Add(time.Duration(heard-1)*time.Second + time.Second/2)}
	return s
}

func faultsOf(found []Finding) []Fault {
	var out []Fault
	for _, f := range found {
		out = append(out, f.Fault)
	}
	return out
}

func TestJudgeTurns(t *testing.T) {
	t.Parallel()
	begun, done, failed := query("q1q done")
	_, other, _ := query("q1q something else")
	_, before, _ := query(messageMark(30, 6) + " both")
	nameless := event.QueryFailed{Query: event.Query{ExecutionID: "x1", MessageIDs: []string{"m1"}}}
	more := func(s Observed, n int) Observed { s.Turns[0].Requests = n; return s }
	overdue := func(s Observed) Observed { s.Turns[0].Overdue = true; return s }
	gone := event.QueryFailed{Query: event.Query{ExecutionID: "x1", MessageIDs: []string{"m1"}, Error: &event.ErrorInfo{Code: session.TypeHostLost, Message: "gone"}}}
	lost := event.EETerminated{Environment: event.Environment{Reason: "unhealthy"}}
	for name, tc := range map[string]struct {
		seen Observed
		want []Fault
	}{
		"well":                               {seen(nil, heardAt(begun, done)), nil},
		"a worker's death changes nothing":   {seen([]Kind{WorkerKill}, heardAt(begun, fenceOf(2), done)), nil},
		"no end":                             {seen(nil, heardAt(begun)), []Fault{Lost}},
		"two ends":                           {seen(nil, heardAt(begun, done, done)), []Fault{Wrong}},
		"its end seen again":                 {deletedBehind(2, seen(nil, heardAt(begun, done, done))), nil},
		"an end seen again, long behind":     {deletedBehind(0, seen(nil, heardAt(begun, begun, done, done))), []Fault{Wrong}},
		"another end seen":                   {deletedBehind(2, seen(nil, heardAt(begun, done, failed))), []Fault{Wrong}},
		"forgotten, and asked again":         {more(deletedBehind(2, seen(nil, heardAt(begun, done, lost, begun, done))), 4), nil},
		"forgotten, streamed anew first":     {more(deletedBehind(2, seen(nil, heardAt(begun, done, begun, fenceOf(3), fenceOf(4), lost, fenceOf(5), done))), 4), nil},
		"streamed anew, and no host lost":    {more(deletedBehind(2, seen(nil, heardAt(begun, done, begun, fenceOf(3), fenceOf(4), done))), 4), []Fault{Extra}},
		"asked again, its host lost":         {more(seen(nil, heardAt(begun, done, lost, begun, done)), 4), []Fault{Wrong, Extra}},
		"asked again behind a deletion":      {more(deletedBehind(2, seen(nil, heardAt(begun, done, begun, done))), 4), []Fault{Extra}},
		"forgotten, and failed":              {deletedBehind(2, seen([]Kind{AgentKill}, heardAt(begun, done, failed, lost))), nil},
		"forgotten as it closed":             {deletedBehind(2, seen([]Kind{WorkerKill}, heardAt(begun, done, gone, lost))), nil},
		"not forgotten as it closed":         {seen([]Kind{WorkerKill}, heardAt(begun, done, gone, lost)), []Fault{Wrong}},
		"failed, its host lost":              {seen([]Kind{AgentKill}, heardAt(begun, done, failed, lost)), []Fault{Wrong}},
		"another answer":                     {seen([]Kind{WorkerKill}, heardAt(begun, other)), []Fault{Wrong}},
		"another answer after a host's loss": {seen([]Kind{HostKill}, heardAt(begun, other)), nil},
		"another message's":                  {seen([]Kind{RunnerKill}, heardAt(begun, before)), []Fault{Wrong}},
		"failed with its worker":             {seen([]Kind{WorkerKill}, heardAt(begun, failed)), []Fault{Lost}},
		"failed with its agent":              {seen([]Kind{WorkerKill, AgentKill}, heardAt(begun, failed)), nil},
		"failed with its runner":             {seen([]Kind{RunnerKill, WorkerKill}, heardAt(begun, failed)), []Fault{Lost}},
		"failed with its host":               {seen([]Kind{HostKill}, heardAt(begun, failed)), []Fault{Lost}},
		"failed with one runner too many":    {seen([]Kind{RunnerKill, RunnerKill, HostKill, RunnerKill}, heardAt(begun, failed)), nil},
		"failed with no name":                {seen([]Kind{AgentKill}, heardAt(begun, nameless)), []Fault{Wrong}},
		"not waited for":                     {overdue(seen(nil, heardAt(begun, nameless))), nil},
		"paid twice":                         {more(seen([]Kind{WorkerKill}, heardAt(begun, done)), 3), []Fault{Extra}},
		"paid twice with its agent":          {more(seen([]Kind{AgentKill}, heardAt(begun, done)), 3), nil},
		"paid too little":                    {more(seen(nil, heardAt(begun, done)), 1), []Fault{Wrong}},
	} {
		_, found := verify(tc.seen, usual)
		require.Equal(t, tc.want, faultsOf(found), "%s: %v", name, found)
	}
}

// A kill after the answer hurts the next turn, and excuses only that one.
func TestJudgeLateKills(t *testing.T) {
	t.Parallel()
	begun, done, _ := query("q1q done")
	q := event.Query{ExecutionID: "x2", MessageIDs: []string{"m2"}, Error: &event.ErrorInfo{Code: "AgentFailed", Message: "it died"}}
	heard := heardAt(begun, done, event.QueryStarted{Query: q}, event.QueryFailed{Query: q})
	for kill, want := range map[Kind][]Fault{AgentKill: nil, WorkerKill: {Lost}} {
		s := seen([]Kind{kill}, heard)
		s.Turns = append(s.Turns, Turn{Mark: "q2q", Script: scripts[0], Message: "m2"})
		_, found := verify(s, usual)
		require.Equal(t, want, faultsOf(found), "%s", kill)
	}
}

func TestJudgeNumbers(t *testing.T) {
	t.Parallel()
	begun, done, _ := query("q1q done")
	for want, seqs := range map[Fault][]uint64{Gap: {1, 3}, Repeat: {1, 1}} {
		heard := heardAt(begun, done)
		for i := range heard {
			heard[i].Context.Seq = seqs[i]
		}
		_, found := verify(seen(nil, heard), usual)
		require.Equal(t, []Fault{want}, faultsOf(found))
	}
	late := heardAt(begun, done)
	for i := range late {
		late[i].Context.Seq += 5
	}
	_, found := verify(seen(nil, late), usual)
	require.Equal(t, []Fault{Gap}, faultsOf(found), "the first number is 1")
}

// After a deletion of the stream the sequence numbers jump once, as an error announced.
func TestJudgeNumbersBehindADeletion(t *testing.T) {
	t.Parallel()
	begun, done, _ := query("q1q done")
	at := noon.Add(500 * time.Millisecond) // between both events
	for name, tc := range map[string]struct {
		next      uint64
		announced []uint64
		deleted   []time.Time
		want      []Fault
	}{
		"announced":                {1000, []uint64{1000}, []time.Time{at}, nil},
		"another was announced":    {1000, []uint64{900}, []time.Time{at}, []Fault{Gap}},
		"announced twice":          {1000, []uint64{1000, 1000}, []time.Time{at}, []Fault{Gap}},
		"a first one was deleted":  {1000, []uint64{900, 1000}, []time.Time{at}, nil},
		"not announced":            {1000, nil, []time.Time{at}, []Fault{Gap}},
		"deleted long before":      {1000, []uint64{1000}, []time.Time{noon.Add(-time.Minute)}, []Fault{Gap}},
		"heard late":               {1000, []uint64{1000}, []time.Time{noon.Add(-3 * time.Second)}, nil},
		"not deleted":              {1000, []uint64{1000}, nil, []Fault{Gap}},
		"deleted, and given again": {1, []uint64{1}, []time.Time{at}, []Fault{Repeat}},
	} {
		s := seen(nil, heardAt(begun, done))
		s.Heard[1].Context.Seq, s.Announced, s.Deleted = tc.next, tc.announced, tc.deleted
		if name == "heard late" {
			s.Heard[0].Context.Timestamp = noon.Add(-4 * time.Second)
		}
		_, found := verify(s, usual)
		require.Equal(t, tc.want, faultsOf(found), name)
	}
}

// TestJudgeTexts: a record that was skipped or translated twice shows in the text,
// though the sequence numbers have no gap.
func TestJudgeTexts(t *testing.T) {
	t.Parallel()
	begun, done, _ := query("q1q done")
	block := func(status event.BlockStatus, text string) event.Payload {
		return event.BlockUpsert{Block: event.Block{ID: "b", Type: event.BlockAssistantText, Status: status, Content: new(text)}}
	}
	delta := func(s string) event.Payload { return event.BlockDelta{BlockID: "b", Delta: s} }
	for _, tc := range []struct {
		deltas []string
		want   []Fault
	}{
		{[]string{"one ", "two"}, nil},
		{[]string{"two"}, []Fault{Gap}},
		{[]string{"one ", "one ", "two"}, []Fault{Repeat}},
		{nil, nil}, // an agent that sends texts without deltas
	} {
		payloads := []event.Payload{begun, block(event.StatusPending, "")}
		for _, d := range tc.deltas {
			payloads = append(payloads, delta(d))
		}
		payloads = append(payloads, block(event.StatusComplete, "one two"), done)
		_, found := verify(seen(nil, heardAt(payloads...)), usual)
		require.Equal(t, tc.want, faultsOf(found), "%v", tc.deltas)
	}
}

// TestJudgeLostTexts: the streamed part of a text that no transcript has stays in the
// conversation. Once it is streamed again, only the second stream counts.
func TestJudgeLostTexts(t *testing.T) {
	t.Parallel()
	begun, done, _ := query("q1q done")
	block := func(status event.BlockStatus, text string) event.Block {
		return event.Block{ID: "b", Type: event.BlockAssistantText, Status: status, Content: new(text)}
	}
	lost := block(event.StatusError, "one two")
	lost.Metadata = map[string]json.RawMessage{"lost": json.RawMessage("true")}
	half := []event.Payload{begun, event.BlockUpsert{Block: block(event.StatusPending, "")}, event.BlockDelta{BlockID: "b", Delta: "one "}}
	whole := append(slices.Clone(half), event.BlockDelta{BlockID: "b", Delta: "two"})
	anew := []event.Payload{event.BlockUpsert{Block: block(event.StatusPending, "")}, event.BlockDelta{BlockID: "b", Delta: "three"}, event.BlockUpsert{Block: block(event.StatusComplete, "three")}}
	for name, c := range map[string]struct {
		heard []event.Payload
		want  []Fault
	}{
		"kept":       {append(slices.Clone(whole), event.BlockUpsert{Block: lost}), nil},
		"a gap":      {append(slices.Clone(half), event.BlockUpsert{Block: lost}), []Fault{Gap}},
		"said anew":  {append(append(slices.Clone(half), event.BlockUpsert{Block: lost}), anew...), nil},
		"anew twice": {append(append(append(slices.Clone(half), event.BlockUpsert{Block: lost}), anew[:2]...), anew[1:]...), []Fault{Repeat}},
	} {
		_, found := verify(seen(nil, heardAt(append(c.heard, done)...)), usual)
		require.Equal(t, c.want, faultsOf(found), name)
	}
}

func TestPauses(t *testing.T) {
	t.Parallel()
	begun, done, _ := query("q1q done")
	v, _ := verify(seen([]Kind{WorkerKill}, heardAt(begun, fenceOf(2), done)), usual)
	require.Equal(t, []pause{{WorkerKill, noon.Add(time.Millisecond), 999 * time.Millisecond}}, v[0].pauses)
	v, _ = verify(seen([]Kind{WorkerKill}, heardAt(begun, done, fenceOf(2))), usual)
	require.Empty(t, v[0].pauses, "the next turn's beginning is no pause of this one")

	s := seen([]Kind{WorkerKill, HostKill, WorkerTerm, WorkerKill}, heardAt(begun, fenceOf(2), fenceOf(3), done))
	s.Turns[0].Hits[3].At = noon.Add(1500 * time.Millisecond)
	v, _ = verify(s, usual)
	require.Equal(t, []pause{
		{HostKill, noon.Add(time.Millisecond), 999 * time.Millisecond},
		{WorkerKill, noon.Add(1500 * time.Millisecond), 500 * time.Millisecond},
	}, v[0].pauses, "kills without an attempt in between are one")

	s = seen([]Kind{WorkerStop, WorkerKill}, heardAt(begun, fenceOf(2), done))
	s.Turns[0].Hits[1].At = noon.Add(30 * time.Second)
	s.Heard[1].At, s.Heard[2].At = noon.Add(31*time.Second), noon.Add(32*time.Second)
	v, _ = verify(s, usual)
	require.Equal(t, []pause{{WorkerKill, noon.Add(30 * time.Second), time.Second}}, v[0].pauses, "a stop that cost no attempt is none")
}

func TestLongPausesAreTold(t *testing.T) {
	t.Parallel()
	begun, done, _ := query("q1q done")
	s := seen([]Kind{StreamAway, WorkerKill}, heardAt(begun, fenceOf(2), done))
	require.Empty(t, waits(s))
	s.Turns[0].Hits[0].At = s.Turns[0].Hits[1].At.Add(-3 * time.Second)
	for i := range s.Heard[1:] {
		s.Heard[1+i].At = s.Heard[1+i].At.Add(20 * time.Second)
	}
	require.Len(t, waits(s), 1)
	require.Contains(t, waits(s)[0], "waited 21.0 s behind a worker-kill in q1q, 3.0 s behind a nats-away")
}

// written finds the agent's transcripts by their path, whatever files are beside them.
func TestWritten(t *testing.T) {
	t.Parallel()
	s, h := &testCase{id: "s1"}, &host{dir: t.TempDir()}
	for _, name := range []string{"s1-e2/home/.agent/a.jsonl", "s1-e2/home/.agent/cache.bin", "s10-e2/home/.agent/b.jsonl"} {
		path := filepath.Join(h.dir, "sandboxes", filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(name), 0o600))
	}
	require.Equal(t, map[string][]byte{filepath.FromSlash(".agent/a.jsonl"): []byte("s1-e2/home/.agent/a.jsonl")}, s.written(h))
	require.Empty(t, s.written(nil))
}

func TestTorn(t *testing.T) {
	t.Parallel()
	whole := []byte("{\"a\":1}\n{\"b\":2}\n")
	require.Empty(t, torn("p/x.jsonl", whole, whole[:8]))
	require.Empty(t, torn("p/x.jsonl", whole, nil))
	require.Contains(t, torn("p/x.jsonl", whole[:12], nil), "line 2 of 1 is torn")
	require.Contains(t, torn("p/x.jsonl", whole[8:], whole), "not the same from byte 2 on")
	require.Contains(t, torn("p/x.jsonl", whole[:8], whole), "8 bytes in the archive, 16 in the sandbox")
	require.Empty(t, torn("p/x.json", []byte("{"), nil), "only what has lines has torn ones")
}

func TestTable(t *testing.T) {
	t.Parallel()
	pauses := func(ms ...int) (out []pause) {
		for _, n := range ms {
			out = append(out, pause{kind: WorkerKill, took: time.Duration(n) * time.Millisecond})
		}
		return out
	}
	verdicts := []verdict{
		{kind: WorkerKill, answered: true, pauses: pauses(900, 1100, 4000)},
		{kind: HostKill, failed: true, extra: 2, pauses: pauses(100)},
	}
	r := Report{Title: "chaos", Seed: 3, At: noon, Command: "make chaos SEED=3", Rows: rows(map[Kind]int{WorkerKill: 3, HostKill: 1}, verdicts, nil)}
	var out bytes.Buffer
	require.NoError(t, r.Write(&out))
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	require.Contains(t, lines, "worker-kill 3 1 1 0 0 0 0 0 0 0 0 0 0 0 1.1 s 4.0 s 4.0 s")
	require.Contains(t, lines, "host-kill 1 1 0 1 2 0 0 0 0 0 0 0 0 0")
	require.Contains(t, lines, "all 4 2 1 1 2 0 0 0 0 0 0 0 0 0")
	require.True(t, r.Good())

	found := []Finding{{Fault: Gap, Kind: WorkerKill, Session: "s9", Agent: "codex", Detail: "event 4 came after 2"}}
	r.Findings, r.Rows = found, rows(nil, nil, found)
	out.Reset()
	require.NoError(t, r.Write(&out))
	require.False(t, r.Good())
	require.Contains(t, out.String(), "gap s9 codex (worker-kill): event 4 came after 2")
	require.Contains(t, out.String(), "again: make chaos SEED=3")
}

func TestMarkOfAProcessThatEnds(t *testing.T) {
	const env = "HOME=/h\x00SOJOURN_SANDBOX=/data/sandboxes/a-e13\x00PATH=/bin\x00"
	for n := range env {
		switch m := markIn(env[:n], "/data/"); m {
		case "", "/data/sandboxes/a-e13":
		default:
			t.Fatalf("markIn(%q) = %q", env[:n], m)
		}
	}
	if m := markIn(env, "/data/"); m != "/data/sandboxes/a-e13" {
		t.Errorf("markIn of the whole = %q", m)
	}
}

func TestTwins(t *testing.T) {
	t.Parallel()
	tree := func(base int, epoch string) []process {
		box := "/d/sandboxes/s1-" + epoch
		return []process{
			{pid: base, parent: 1, started: "1", exe: "sojourn-runner", args: []string{"sojourn-runner", "supervise"}, sandbox: box},
			{pid: base + 1, parent: base, started: "1", exe: "sojourn-runner", args: []string{"sojourn-runner", "init"}, sandbox: box},
			{pid: base + 2, parent: base + 1, started: "1", exe: "claude", args: []string{"claude"}, sandbox: box},
			{pid: base + 3, parent: base + 2, started: "1", exe: "bash", args: []string{"bash", "-c", "echo q1q"}, sandbox: box},
		}
	}
	one, two := tree(10, "1"), tree(20, "2")
	owner := map[string]int{}
	require.Len(t, groupAgents(one, owner)["s1"], 1, "an agent and its tools are one")
	require.Len(t, groupAgents(append(one, two...), owner)["s1"], 2)
	require.Len(t, groupAgents(append(one, two[:2]...), owner)["s1"], 1, "a runner without an agent is none")
	require.Len(t, groupAgents(append(one[2:], two...), owner)["s1"], 2, "an agent that outlived its runner counts too")
	shut := one[1]
	shut.sandbox, shut.exe, shut.args = "", "", nil
	seen := adopt([]process{one[0], one[2], one[3]}, []process{shut, {pid: 50, parent: 1}})
	require.Len(t, seen, 4, "the mark of the namespace's first process can't be read")
	require.Len(t, agents(seen, "s1"), 1)

	helper := process{pid: 30, parent: 31, started: "1", exe: "cp", sandbox: "/d/sandboxes/s1-1"}
	require.Len(t, groupAgents(append(one, helper), owner)["s1"], 1, "the worker's own helpers are none")

	require.Equal(t, []process{one[2]}, agents(one, "s1"))
	require.Equal(t, []process{one[0]}, supervisors(one, "s1"))
	require.Equal(t, []process{one[3]}, tools(one, "s1", "q1q"))
	require.Empty(t, agents(one, "s2"))
}

// TestLeaseOver: a turn resumed after a silence as long as the lease counts as
// LeaseOver. One resumed sooner does not, and its extra requests are faults.
func TestLeaseOver(t *testing.T) {
	t.Parallel()
	begun, done, _ := query("q1q done")
	resumed := event.BlockUpsert{Block: event.Block{ID: "r", Type: event.BlockSystem, Subtype: "resumed"}}
	for name, tc := range map[string]struct {
		silence time.Duration
		block   event.Payload
		want    Kind
	}{
		"long and resumed": {40 * time.Second, resumed, LeaseOver},
		"short":            {5 * time.Second, resumed, WorkerKill},
		"not resumed":      {40 * time.Second, fenceOf(2), WorkerKill},
	} {
		s := seen([]Kind{WorkerKill}, heardAt(begun, tc.block, done))
		s.Heard[1].At = noon.Add(tc.silence)
		s.Heard[2].At = noon.Add(tc.silence + time.Second)
		s.Turns[0].Requests = 3
		v, found := verify(s, usual)
		require.Equal(t, tc.want, v[0].kind, name)
		require.Equal(t, tc.want != LeaseOver, len(found) > 0, name)
	}
	s := seen([]Kind{HostKill}, heardAt(begun, resumed, done))
	v, _ := verify(s, usual)
	require.Equal(t, HostKill, v[0].kind)
}

// The workflow truncates a long answer. The archive has it whole, and that is compared.
func TestJudgeReadsWholeAnswers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]Fault{"q1q done": nil, "q1q dumb": {Wrong}, "q2q done": {Wrong}, "q1q d": {Wrong}} {
		asked := session.Result{Outcome: session.Completed, Result: &event.QueryResult{Response: "q1q d…", Truncated: true, ResponseBlockID: "b"}}
		s := &testCase{turns: []Turn{{Mark: "q1q", Script: scripts[0], Message: "m1", Requests: 2, Asked: &asked, Hits: []Hit{{StreamDelete, noon}}}}}
		_, found := verify(Observed{ID: "s", Agent: "claude", Turns: s.turns}, usual)
		require.Equal(t, []Fault{Wrong}, faultsOf(found), "the beginning is not the answer")
		s.readAnswers(reducer.State{Blocks: []event.Block{{ID: "a", Content: new("q1q done")}, {ID: "b", Content: &text}}})
		_, found = verify(Observed{ID: "s", Agent: "claude", Turns: s.turns}, usual)
		require.Equal(t, want, faultsOf(found), text)
	}
}

// TestATurnIsOverdue: a kill that ends the agent starts the time anew, another does not.
func TestATurnIsOverdue(t *testing.T) {
	sent := time.Now()
	turn := Turn{Hits: []Hit{{Kind: RunnerKill, At: sent.Add(-time.Minute)}, {Kind: HostKill, At: sent.Add(time.Minute)}, {Kind: StackKill, At: sent.Add(2 * time.Minute)}}}
	for hits, want := range []time.Duration{0, 0, time.Minute, time.Minute} {
		if got := (Turn{Hits: turn.Hits[:hits]}).due(sent); !got.Equal(sent.Add(want + turnPatience)) {
			t.Errorf("with %d kills: overdue after %s, want %s", hits, got.Sub(sent), want+turnPatience)
		}
	}
}
