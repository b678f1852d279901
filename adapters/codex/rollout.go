package codex

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
)

const (
	lineMeta  = "session_meta"
	lineEvent = "event_msg"
	lineItem  = "response_item"
	// lineTokens ends an answer of the model.
	lineTokens = "token_usage_record"
	// roleDeveloper is the role of what the program itself adds, such as a note that the turn
	// was interrupted.
	roleDeveloper = "developer"
)

// reading is the turn that is being read.
type reading struct {
	id    string
	parts []turnPart
	// calls are the model's calls without an item so far, in order.
	calls []modelCall
	last  int64
	// newest is the item of the last line that matters: it may not have been sent. The
	// program writes an item before it sends it. What it then writes for the model (the text
	// again, the output of the call) it writes after it has sent the item.
	newest *item
	// seen is what the live stream has of the turn's times.
	seen thread
	// bytes is the size of the lines that parts were made of.
	bytes int
}

// modelCall is a call as the model made it.
type modelCall struct {
	payload
	at     int64
	rank   int
	output *string
	// outcomeAt is when the model got the outcome.
	outcomeAt int64
}

// line takes one line of the file.
func (f *file) line(raw []byte) error {
	f.size = len(raw)
	var l rolloutLine
	if err := decodeObject(raw, &l); err != nil {
		return err
	}
	if l.Type != "" && !given(l.Payload) {
		return errNoPayload
	}
	at := f.turn.last
	if stamp, err := time.Parse(time.RFC3339Nano, l.Timestamp); err == nil {
		at = stamp.UnixMilli()
	}
	f.turn.last = max(f.turn.last, at)
	if l.Type == lineTokens {
		f.turn.newest = nil
	}
	switch l.Type {
	case lineEvent:
		return f.event(&l, at)
	case lineItem:
		return f.modelItem(&l, at)
	case lineMeta:
		return f.meta(&l)
	case "":
		return nativejson.ErrNoType
	}
	if !bookkeeping[l.Type] {
		f.native(l.Type, at, slices.Clone(raw))
	}
	return nil
}

// bookkeeping are line types that are not about the conversation.
var bookkeeping = map[string]bool{
	"world_state": true, "turn_context": true, lineTokens: true, "ghost_snapshot": true,
	"compacted": true, "security_context": true,
}

func (f *file) meta(l *rolloutLine) error {
	var m sessionMeta
	if err := decodeObject(l.Payload, &m); err != nil {
		return err
	}
	f.plain = m.Originator == "codex_exec"
	return nil
}

// event handles what the program shows its users, and stores.
func (f *file) event(l *rolloutLine, at int64) error {
	var p payload
	if err := decodeObject(l.Payload, &p); err != nil {
		return err
	}
	if n := f.turn.newest; p.Type == "turn_aborted" && n != nil && !n.kind().isTool() {
		f.dropNewest() // the end of a call comes last when it was sent, too
	}
	if p.TurnID == f.turn.id {
		f.turn.newest = nil
	}
	switch p.Type {
	case "task_started", "turn_started":
		f.flushTurn(false)
		f.turn.id = p.TurnID
		// Without a time it is the first of the turn's parts.
		f.add(turnPart{emit: func(_ *emitter, th *thread, _ string) { th.noCall() }})
	case "item_completed":
		if p.Item != nil {
			f.item(&p, at)
		}
	case "token_count":
		if p.Info != nil {
			f.add(turnPart{at: at, rank: f.in.Number(), late: 1, emit: func(s *emitter, th *thread, _ string) {
				s.used(th, p.Info.Total.Tokens, p.Info.Last.event())
			}})
			f.releaseOutside()
		}
	case "task_complete", "turn_complete":
		f.turnEnd(&p, turnDone)
	case "turn_aborted":
		f.turnEnd(&p, turnInterrupted)
	default:
		if !bookkeepingEvents[p.Type] {
			f.native(l.Type+"/"+p.Type, at, l.Payload)
		}
	}
	return nil
}

// bookkeepingEvents are not about the conversation, or repeat an item.
var bookkeepingEvents = map[string]bool{
	"thread_settings_applied": true, "item_started": true, "user_message": true,
	"agent_message": true, "agent_reasoning": true, "agent_reasoning_raw_content": true, "context_compacted": true,
	"thread_name_updated": true, "exec_command_end": true, "mcp_tool_call_end": true, "patch_apply_end": true,
	"web_search_end": true, "thread_goal_updated": true, "thread_goal_cleared": true, "error": true, "warning": true,
}

// native keeps a line of an unknown type.
func (f *file) native(kind string, at int64, raw []byte) {
	f.add(turnPart{at: at, rank: f.in.Number(), emit: func(s *emitter, th *thread, _ string) {
		s.Native(th.Conversation, "", kind, raw)
	}})
	f.releaseOutside()
}

func (f *file) add(t turnPart) {
	t.size = f.size
	f.turn.parts = append(f.turn.parts, t)
	if f.turn.bytes += t.size; f.turn.bytes > heldTurn {
		f.releaseOldest()
	}
}

// heldTurn bounds how much of a turn is held to be put in order, in bytes of its
// lines.
const heldTurn = 8 << 20

// releaseOldest emits the older half of a turn that is too long to be held.
func (f *file) releaseOldest() {
	f.close()
	n := (len(f.turn.parts) + 1) / 2
	f.ready = append(f.ready, f.turn.parts[:n]...)
	f.turn.parts, f.turn.bytes = slices.Clone(f.turn.parts[n:]), 0
	for _, t := range f.turn.parts {
		f.turn.bytes += t.size
	}
}

// releaseOutside emits at once what is outside of a turn.
func (f *file) releaseOutside() {
	if f.turn.id == "" {
		f.flushTurn(true)
	}
}

// item handles a whole item. One of an earlier turn is a call's result after its
// turn, which is not part of the conversation.
func (f *file) item(p *payload, at int64) {
	it, kind := p.Item, p.Item.kind()
	if kind.isTool() && p.TurnID != f.turn.id {
		return
	}
	started, ended := p.StartedMS, p.CompletedMS
	if started == 0 {
		started = at
	}
	if ended == 0 {
		ended = at
	}
	rank := f.rank(it.ID)
	if kind != kindUser {
		f.turn.newest = it
	}
	f.turn.seen.saw(it, p.StartedMS, p.CompletedMS)
	if !kind.isTool() {
		f.add(turnPart{at: started, rank: rank, late: 1, item: it.ID, emit: func(s *emitter, th *thread, _ string) {
			th.saw(it, p.StartedMS, p.CompletedMS)
			s.end(th, it.ID, it, "")
		}})
		f.releaseOutside()
		return
	}
	f.add(turnPart{at: started, rank: rank, late: 1, item: it.ID, emit: func(s *emitter, th *thread, _ string) {
		s.begin(th, it.ID, it)
	}})
	done := turnPart{at: ended, rank: rank, late: 1, phase: 1, item: it.ID, emit: func(s *emitter, th *thread, _ string) {
		th.saw(it, p.StartedMS, p.CompletedMS)
		s.end(th, it.ID, it, "")
	}}
	if ended > started {
		done.late = 0
	}
	f.add(done)
}

// rank returns the place of an item in the model's order: that of its call, which
// then has a result, else that of its own line.
func (f *file) rank(id string) int {
	at := slices.IndexFunc(f.turn.calls, func(c modelCall) bool { return c.CallID == id })
	if at < 0 {
		return f.in.Number()
	}
	rank := f.turn.calls[at].rank
	f.turn.calls = slices.Delete(f.turn.calls, at, at+1)
	return rank
}

// modelItem handles the model's output and input. All of it that a conversation
// shows is also in items, except for calls without a result.
func (f *file) modelItem(l *rolloutLine, at int64) error {
	var head struct {
		Type string `json:"type"`
		Role string `json:"role"`
	}
	if err := decodeObject(l.Payload, &head); err != nil {
		return err
	}
	if head.Role != roleDeveloper {
		f.turn.newest = nil
	}
	switch head.Type {
	case "function_call", "custom_tool_call", "local_shell_call":
		c := modelCall{at: at, rank: f.in.Number()}
		if err := decodeObject(l.Payload, &c.payload); err != nil {
			return err
		}
		f.turn.calls = append(f.turn.calls, c)
	case "function_call_output", "custom_tool_call_output":
		return f.output(l, at)
	}
	return nil
}

func (f *file) output(l *rolloutLine, at int64) error {
	var p payload
	if err := decodeObject(l.Payload, &p); err != nil {
		return err
	}
	for i := range f.turn.calls {
		if f.turn.calls[i].CallID == p.CallID {
			text, _ := plainText(p.Output)
			f.turn.calls[i].output, f.turn.calls[i].outcomeAt = &text, at
		}
	}
	return nil
}

// turnEnd ends the turn that is being read.
func (f *file) turnEnd(p *payload, status string) {
	if p.Error != nil && status == turnDone {
		status = turnFailed
	}
	end := outcome{status, p.DurationMS}
	f.streamedCalls(end)
	turn := first(f.turn.id, p.TurnID)
	f.close()
	f.add(turnPart{at: f.turn.last, emit: func(s *emitter, th *thread, id string) {
		if p.Error != nil && status == turnFailed {
			s.failure(th, turn, p.Error)
		}
		s.turnEnded(th, id, end)
		if th.Conversation == event.Main {
			s.Emit(event.Main, event.SessionIdle{})
		}
	}})
	f.release()
}

// flushTurn ends a turn without an end: the process died. Outside of
// a turn nothing is open.
func (f *file) flushTurn(outside bool) {
	f.turn.calls = nil
	if !outside {
		f.dropNewest()
	}
	f.close()
	if !outside && f.turn.id != "" {
		f.add(turnPart{at: f.turn.last, emit: func(s *emitter, th *thread, id string) {
			s.turnEnded(th, id, outcome{status: turnLost})
		}})
	}
	f.release()
}

// dropNewest leaves out the item that was written last, if it may not have been sent: the
// turn was broken off then.
func (f *file) dropNewest() {
	if last := f.turn.newest; last != nil {
		f.turn.parts = slices.DeleteFunc(f.turn.parts, func(t turnPart) bool { return t.item == last.ID })
	}
}

// close puts the parts of the turn in order.
func (f *file) close() { slices.SortStableFunc(f.turn.parts, turnPart.compare) }

// release emits the turn.
func (f *file) release() {
	f.ready = append(f.ready, f.turn.parts...)
	f.turn = reading{last: f.turn.last}
}

// streamedCalls emits the calls that have started and have no item.
func (f *file) streamedCalls(end outcome) {
	completed := end.status != turnInterrupted
	keeps := !f.plain && f.turn.seen.keeps(end) || completed
	for _, c := range f.turn.calls {
		it := c.item()
		if it == nil || !keeps || !c.streamed(completed) {
			continue
		}
		f.add(turnPart{at: c.at, rank: c.rank, late: 1, emit: func(s *emitter, th *thread, _ string) {
			s.begin(th, it.ID, it)
		}})
		if failed := c.failure(); failed != nil && completed {
			f.add(turnPart{at: c.outcomeAt, rank: c.rank, late: 1, phase: 1, emit: func(s *emitter, th *thread, _ string) {
				failed(s, th, it)
			}})
		}
	}
	f.turn.calls = nil
}

// The texts by which the program tells the model what became of a call that has
// no item.
const (
	textRunning  = "Process running with session ID"
	textFailed   = "exec_command failed: "
	textRejected = `Rejected("`
	endOfHeader  = "\nOutput:\n"
)

// streamed reports whether the live stream has the call. In a turn that was broken
// off, every call with an item had started; in a completed one, those that
// continue in the background, that were refused, or that could not be started. A
// call that the program itself refused never started.
func (c *modelCall) streamed(completed bool) bool {
	if !completed || c.output == nil {
		return true
	}
	header, _, _ := strings.Cut(*c.output, endOfHeader)
	return strings.HasPrefix(*c.output, textFailed) || strings.Contains(header, textRunning)
}

// failure returns how a command ended that could not be started; nil for others.
func (c *modelCall) failure() func(*emitter, *thread, *item) {
	if c.output == nil || !strings.HasPrefix(*c.output, textFailed) {
		return nil
	}
	why := unquoteReason(*c.output)
	if why == rejectedByUser {
		return func(s *emitter, th *thread, it *item) {
			it.Status = "declined"
			s.result(th, it.ID, it)
		}
	}
	return func(s *emitter, th *thread, it *item) {
		it.Status, it.OutputDisk = "failed", &why
		s.result(th, it.ID, it)
	}
}

// unquoteReason returns the reason from the text for the model, which quotes it
// twice.
func unquoteReason(output string) string {
	_, rest, found := strings.Cut(output, `message: "`)
	if !found {
		return strings.TrimPrefix(output, textFailed)
	}
	inner := strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(strings.TrimSuffix(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "}")), `"`))
	inner = strings.TrimSuffix(strings.TrimPrefix(inner, textRejected), `")`)
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n").Replace(inner)
}

// item returns what the live stream shows of a call before it has a result; nil
// for tools that have no items.
func (c *modelCall) item() *item {
	var args struct {
		Cmd     string         `json:"cmd"`
		Command jsontext.Value `json:"command"`
		Message string         `json:"message"`
		Targets []string       `json:"targets"`
		Target  string         `json:"target"`
	}
	text, _ := plainText(c.Arguments)
	name, server := c.Name, strings.TrimPrefix(c.Namespace, "mcp__")
	it := &item{ID: c.CallID}
	if server != c.Namespace {
		it.Type, it.Server, it.Tool, it.Arguments = string(kindMCP), server, name, jsontext.Value(objectOr(c.Arguments))
		return it
	}
	if decode([]byte(text), &args) != nil {
		return nil
	}
	switch {
	case shellTools[name]:
		it.Type, it.Command = string(kindCommand), args.Command
		if args.Cmd != "" {
			it.Command = jsontext.Value(object([]string{"sh", "-c", args.Cmd}))
		}
	case c.Namespace == teamNamespace && name != "wait_agent":
		return nil // they are done as soon as they have started
	case collabTools[name] != "":
		it.Type, it.Tool, it.Prompt, it.Receivers = string(kindCollab), collabTools[name], args.Message, args.Targets
		if args.Target != "" {
			it.Receivers = []string{args.Target}
		}
	default:
		return nil
	}
	return it
}

// teamNamespace has the tools about subagents that are members of a team.
const teamNamespace = "collaboration"

// shellTools are the model's names for the tool that runs commands.
var shellTools = map[string]bool{"exec_command": true, "shell": true, "shell_command": true, "local_shell": true, "container.exec": true}

// collabTools are the tools about subagents: the model's name → the item's.
var collabTools = map[string]string{
	"spawn_agent": spawnTool, "wait_agent": "wait", "send_input": "send_input", "close_agent": "close_agent", "resume_agent": "resume_agent",
}
