package claude

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/sojourn-run/sojourn/event"
)

// A prompt that finds the program idle is in the conversation at once. One that
// finds it busy is queued, and appears where the program puts it: behind a tool's
// result in the running turn, or before a separate turn, in which several become
// one. The program's replays show which; without them, the next model request
// after a tool's result takes the queued prompts.

// promptID returns the host's id, or a position: the parity rules recognise the
// latter by its prefix.
func (s *emitter) promptID(p prompt) string {
	if p.ID != "" {
		return p.ID
	}
	s.Prompts++
	return UngivenPrefix + strconv.Itoa(s.Prompts)
}

// UngivenPrefix is the prefix of the block id of a prompt without an id.
const UngivenPrefix = "prompt:"

// handed records a prompt that was written to the program.
func (t *translator) handed(l *line) {
	if l.Message == nil {
		return
	}
	parts := slices.Clone(l.Message.parts())
	p := prompt{ID: l.UUID, Content: l.Message.given()}
	if t.Turn.Phase != idle || commandIn(parts) != nil {
		t.Turn.Queue = append(t.Turn.Queue, p)
	} else {
		if t.waits() {
			t.messageEvent(p, true)
		}
		t.show(p, parts)
		t.Turn.Shown = true
	}
	if t.Turn.Phase == idle {
		t.Turn.Phase, t.Turn.Quiet = starting, false
	}
}

// show emits a prompt.
func (t *translator) show(p prompt, parts []part) {
	if c := commandIn(parts); c != nil {
		c.Text = t.commandText(c.Text)
	}
	t.put(p, parts)
}

func (t *translator) put(p prompt, parts []part) {
	t.userMessage(event.Main, t.promptID(p), parts)
	t.Turn.Taken = append(t.Turn.Taken, p)
}

// turnRuns is called at a model request: what the turn answers must be in the
// conversation by now.
func (t *translator) turnRuns() {
	turn := &t.Turn
	t.Preserved = nil
	switch {
	case turn.Phase != running && !turn.Shown:
		t.ownTurn()
	case turn.Phase == running && turn.Resulted && !t.Replays:
		t.foldQueued()
	}
	turn.Phase, turn.Shown, turn.Quiet, turn.Resulted = running, true, false, false
}

// ownTurn takes the queue's head, and what the program has merged into it.
func (t *translator) ownTurn() {
	n := t.mergedCount()
	if n == 0 {
		return
	}
	taken := t.Turn.Queue[:n]
	t.Turn.Queue = slices.Clone(t.Turn.Queue[n:])
	t.Turn.Merged = nil
	var all []part
	for _, p := range taken {
		if parts, err := decodeParts(p.Content); err == nil {
			all = append(all, parts...)
		}
		t.messageEvent(p, true)
	}
	t.show(taken[n-1], all)
	t.Turn.Taken = append(t.Turn.Taken, taken[:n-1]...)
}

// mergedCount returns how many queued prompts the next turn takes.
func (t *translator) mergedCount() int {
	queue := t.Turn.Queue
	if len(queue) == 0 {
		return 0
	}
	if t.Replays {
		n := 1
		for n < len(queue) && slices.Contains(t.Turn.Merged, queue[n-1].ID) {
			n++
		}
		return n
	}
	n := 0
	for n < len(queue) && !queuedCommand(queue[n]) {
		n++
	}
	return max(n, 1)
}

func queuedCommand(p prompt) bool {
	parts, err := decodeParts(p.Content)
	return err == nil && commandIn(parts) != nil
}

// foldQueued takes all queued prompts into the running turn.
func (t *translator) foldQueued() {
	for len(t.Turn.Queue) > 0 && !queuedCommand(t.Turn.Queue[0]) {
		t.fold(0, t.Turn.Queue[0])
	}
}

// fold takes one queued prompt into the running turn.
func (t *translator) fold(at int, as prompt) {
	p := t.Turn.Queue[at]
	t.Turn.Queue = slices.Delete(t.Turn.Queue, at, at+1)
	if parts, err := decodeParts(p.Content); err == nil {
		t.put(as, parts) // what looks like a command is not one here
	}
	t.messageEvent(p, false)
}

// messageEvent emits what became of a message that found the program busy.
func (t *translator) messageEvent(p prompt, own bool) {
	ref := event.MessageRef{MessageID: p.ID}
	switch {
	case p.ID == "":
	case own:
		t.Emit(event.Main, event.MessageOwnTurn{MessageRef: ref})
	default:
		t.Emit(event.Main, event.MessageFolded{MessageRef: ref})
	}
}

// replayed handles the program's confirmation that it has a prompt.
func (t *translator) replayed(l *line, p prompt) {
	parts, err := decodeParts(p.Content)
	if err != nil {
		return // it was read before
	}
	t.Replays = t.Replays || l.IsReplay
	if findPrompt(t.Turn.Taken, p) >= 0 {
		return
	}
	at := findPrompt(t.Turn.Queue, p)
	switch {
	case at < 0:
		// A stream without its input side: only this line has the prompt.
		t.show(p, parts)
		t.Turn.Shown = true
	case t.Turn.Phase == running:
		t.fold(at, p)
	default:
		t.Turn.Merged = append(t.Turn.Merged, t.Turn.Queue[at].ID)
	}
}

// expects reports whether a line repeats a prompt that was written to the program.
func (t *translator) expects(l *line) bool {
	if l.Message == nil {
		return false
	}
	p := prompt{ID: l.UUID, Content: l.Message.Content.raw}
	return findPrompt(t.Turn.Taken, p) >= 0 || findPrompt(t.Turn.Queue, p) >= 0
}

// findPrompt returns the index of a prompt by its id, or by its content if the
// host gave no id.
func findPrompt(prompts []prompt, p prompt) int {
	at := slices.IndexFunc(prompts, func(q prompt) bool { return q.ID != "" && q.ID == p.ID })
	if at >= 0 {
		return at
	}
	return slices.IndexFunc(prompts, func(q prompt) bool { return q.ID == "" && sameContent(q.Content, p.Content) })
}

func sameContent(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	pa, errA := decodeParts(a)
	pb, errB := decodeParts(b)
	return errA == nil && errB == nil && len(pa) == len(pb) && joinText(pa) == joinText(pb)
}

// localCommand passes the command that the program answers itself to the emitter,
// which waits for its output.
func (t *translator) localCommand() {
	turn := &t.Turn
	if turn.Phase == starting && !turn.Shown && len(turn.Queue) > 0 && queuedCommand(turn.Queue[0]) {
		t.holdCommand(event.Main, turn.Queue[0])
		turn.Taken = append(turn.Taken, turn.Queue[0])
		turn.Queue = slices.Delete(turn.Queue, 0, 1)
		turn.Shown = true
	}
}
