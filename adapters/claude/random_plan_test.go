package claude

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/test/parity"
)

// A random scenario is a few processes of one conversation, each in the same
// mode, with prompts, control requests and signals at random times. All of it is
// derived from the seed; only the agent's own timing is not.

// mode is how the agent is run.
type mode struct {
	name    string
	oneShot bool // the prompt is on the command line
	replay  bool // --replay-user-messages
	partial bool // --include-partial-messages
	states  bool // CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS
	uuids   bool // the host gives its messages ids
	intro   bool // the host requests the text of subagents
	ask     bool // the host is asked for permission
}

// modes are the session's own, twice, and those that were recorded.
var modes = []mode{
	{name: "session", replay: true, partial: true, states: true, uuids: true, intro: true},
	{name: "session-ask", replay: true, partial: true, states: true, uuids: true, intro: true, ask: true},
	{name: "one-shot", oneShot: true, partial: true},
	{name: "one-shot-whole", oneShot: true},
	{name: "stream", partial: true},
	{name: "stream-whole"},
	{name: "stream-replay", partial: true, replay: true},
	{name: "stream-uuids", partial: true, uuids: true},
	{name: "stream-replay-uuids", partial: true, replay: true, uuids: true},
	{name: "stream-states", partial: true, states: true},
	{name: "stream-intro", partial: true, intro: true, ask: true},
}

// rules returns strict rules for the session's mode; what other modes do not send
// is left out as for the recordings.
func (m mode) rules() parity.Rules {
	if strings.HasPrefix(m.name, "session") {
		return parity.Rules{UnsentDepth: 2}
	}
	return rules
}

// plan is a scenario.
type plan struct {
	Seed uint64
	mode mode
	runs []planRun
}

type planRun struct {
	acts []act
	end  string // close, or a signal
	// answers to permission requests, in turn.
	answers []string
}

// act is one thing that the host does, after a while or when all is quiet.
type act struct {
	kind  string // send, image, parts, interrupt, model, mode, signal
	text  string
	after time.Duration // 0: when all is quiet
}

func (a act) String() string {
	text := a.text
	if len(text) > 200 {
		text = text[:200] + "…"
	}
	return fmt.Sprintf("%-9s %6s %q", a.kind, a.after, text)
}

func (p plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, mode %s\n", p.Seed, p.mode.name)
	for _, r := range p.runs {
		for _, a := range r.acts {
			fmt.Fprintf(&b, "  %s\n", a)
		}
		fmt.Fprintf(&b, "  end: %s, answers %v\n", r.end, r.answers)
	}
	return b.String()
}

// dice make plans.
type dice struct {
	*rand.Rand
	dir string
	n   int
}

func one[T any](d *dice, of ...T) T { return of[d.IntN(len(of))] }

func makePlan(seed uint64, m mode, dir string, gentle bool) plan {
	d := &dice{Rand: rand.New(rand.NewPCG(seed, 7)), dir: dir}
	p := plan{Seed: seed, mode: m}
	for range 1 + d.IntN(3) {
		r := d.run(m)
		if gentle {
			r = r.gentle(m)
		}
		p.runs = append(p.runs, r)
	}
	return p
}

// gentle leaves out what is known to differ. Without replays nothing shows the
// place of a message that was sent during a turn.
func (r planRun) gentle(m mode) planRun {
	r.end = "close"
	r.acts = slices.DeleteFunc(r.acts, func(a act) bool {
		return a.kind == "signal" || a.kind == "interrupt" || a.after > 0 && a.text != "" && !m.replay
	})
	for i, a := range r.acts {
		if strings.HasPrefix(strings.TrimSpace(a.text), "/") {
			r.acts[i] = act{kind: "send", text: "/cost"}
		}
		r.acts[i].text = strings.ReplaceAll(r.acts[i].text, "SUBAGENTBG", "SUBAGENT")
		if !m.partial { // whole messages leave out the empty ones, which count on disk
			r.acts[i].text = strings.ReplaceAll(r.acts[i].text, "SAY  ", "SAY x ")
		}
	}
	for i, a := range r.answers {
		if a == "interrupt" || a == "ignore" {
			r.answers[i] = "deny"
		}
	}
	return r
}

func (d *dice) run(m mode) planRun {
	r := planRun{end: one(d, "close", "close", "close", "close", "2", "15", "9")}
	for range 8 {
		r.answers = append(r.answers, one(d, "allow", "allow", "deny", "interrupt", "ignore"))
	}
	if m.oneShot {
		r.acts = []act{{kind: "send", text: d.prompt()}}
		if d.IntN(4) == 0 {
			r.acts = append(r.acts, act{kind: "signal", text: one(d, "2", "15", "9"), after: d.randomTime()})
		}
		r.end = "close"
		return r
	}
	for range 1 + d.IntN(4) {
		r.acts = append(r.acts, d.turn()...)
	}
	if r.end != "close" {
		r.acts = append(r.acts, act{kind: "signal", text: r.end, after: d.randomTime()})
	}
	return r
}

func (d *dice) randomTime() time.Duration {
	return time.Duration(1+d.IntN(one(d, 50, 400, 1500, 3000))) * time.Millisecond
}

// turn returns a prompt, and sometimes acts during it.
func (d *dice) turn() []act {
	acts := []act{{kind: one(d, "send", "send", "send", "send", "image", "parts"), text: d.prompt()}}
	if strings.HasPrefix(strings.TrimSpace(acts[0].text), "/") {
		acts[0].kind = "send"
	}
	for d.IntN(3) == 0 {
		a := act{kind: one(d, "send", "send", "interrupt", "interrupt", "model", "mode", "image"), after: d.randomTime()}
		switch a.kind {
		case "send", "image":
			a.text = d.prompt()
		case "model":
			a.text = one(d, "claude-haiku-4-5", "claude-sonnet-4-5", "default", "opus")
		case "mode":
			a.text = one(d, "default", "bypassPermissions", "plan", "acceptEdits")
		}
		acts = append(acts, a)
	}
	return acts
}

func (d *dice) prompt() string {
	switch d.IntN(12) {
	case 0:
		return one(d, "/cost", "/compact", "/compact keep the numbers", "/nosuchcommand", "/nosuch with words",
			"/help", "/context", "/model", "/cost with args", "/stats", "/status", "/", "/ x", "/tmp/file is a path", "/init", "/review")
	case 1:
		return one(d, "plain words", "多字节 😀 \u202e e\u0301 \u0000x", "line one\nline two\n\nline four\n", "  SAY leading blanks",
			"SAY trailing blanks  \n", "<b>tags</b> & <command-name>", "[Request interrupted by user] says the user", "@nofile.txt",
			"!ls", "# remember", strings.Repeat("long line ", 30_000), "null", "{\"json\":true}", "<local-command-stdout>mine</local-command-stdout>",
			"Caveat: x", "tab\tand\r\nreturn", "  /cost", "\n/cost", "!", "?", "exit", "quit", "<system-reminder>x</system-reminder>")
	default:
		return d.script(" THEN ", 0)
	}
}

func (d *dice) script(join string, depth int) string {
	var steps []string
	for range 1 + d.IntN(3) {
		steps = append(steps, d.step(depth))
	}
	return strings.Join(steps, join)
}

func (d *dice) step(depth int) string {
	d.n++
	switch d.IntN(18) {
	case 0, 1:
		return fmt.Sprintf("THINK about thing %d", d.n)
	case 2:
		return fmt.Sprintf("TOOL bash: echo tool%d; sleep 0.%d", d.n, d.IntN(6))
	case 3:
		return one(d, "TOOL bash: ls /nonexistent; exit 3", "TOOL bash: false", "TOOL bash: seq 1 40000", "TOOL bash: true", "TOOL bash: printf 'é😀\\0x'")
	case 4:
		return fmt.Sprintf("TOOL write: %s :: text 多 %d", filepath.Join(d.dir, fmt.Sprintf("f%d.txt", d.n)), d.n)
	case 5:
		return one(d, "TOOL read: /nonexistent/x", "TOOL read: /etc/hostname")
	case 6, 7:
		return "TWO"
	case 8:
		return one(d, "ERR400", "ERR401", "ERR429", "ERR500", "ERR529", "CUT")
	case 9:
		return one(d, "BIG 200000", "DELTAS 200", "SLOW 0.5", "HANG 0.3", "SAY ", "RECALL")
	case 10, 11:
		if depth < 2 {
			join := []string{" ANDTHEN ", " ANDANDTHEN "}[depth]
			return one(d, "SUBAGENT ", "SUBAGENT ", "SUBAGENTBG ") + d.script(join, depth+1)
		}
	case 12:
		return one(d, "WAITAGENT", `CALL NoSuchTool {"a":1}`, `CALL TodoWrite {"todos":[{"content":"a","status":"pending","activeForm":"b"}]}`,
			`CALL Bash {"wrong":1}`, `CALL AskUserQuestion {"questions":[{"question":"Which?","header":"h","multiSelect":false,"options":[{"label":"a","description":"x"},{"label":"b","description":"y"}]}]}`,
			`CALL Bash {"command":"sleep 0.5; echo bg","run_in_background":true,"description":"d"}`, `CALL Skill {"skill":"nosuch"}`, `CALL EnterPlanMode {}`, `CALL ExitPlanMode {"plan":"p"}`, `CALL Glob {"pattern":"*"}`)
	}
	return fmt.Sprintf("SAY words %d %s", d.n, one(d, "", "😀 多字节", "more of them", "<x>&amp;"))
}
