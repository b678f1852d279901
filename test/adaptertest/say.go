package adaptertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/test/modelsim"
)

// Send sends a prompt to the agent and returns its id.
func (r *Rig) Send(text string) string {
	r.t.Helper()
	return r.Prompt(adapters.Prompt{Text: text})
}

// Prompt sends a prompt that is more than text. It sets MessageID, model and permission
// if they are empty. A steering prompt needs no end of its own.
func (r *Rig) Prompt(p adapters.Prompt) string {
	r.t.Helper()
	if p.MessageID == "" {
		p.MessageID = uuid.NewString()
	}
	if p.Permission == "" {
		p.Permission = r.Launch.Permission
	}
	if p.Model == "" {
		p.Model = r.Launch.Model
	}
	if !p.Steer {
		var err error
		r.marked, err = r.conn.Mark(r.t.Context())
		require.NoError(r.t, err)
		r.mu.Lock()
		r.due.asked++
		r.mu.Unlock()
	}
	r.Say("prompt-"+p.MessageID, p)
	return p.MessageID
}

// Say sends an input to the agent, as soon as the agent can take it.
func (r *Rig) Say(id string, in adapters.Input) {
	r.t.Helper()
	require.NoError(r.t, r.trySay(id, in))
}

func (r *Rig) trySay(id string, in adapters.Input) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dialogue.Say(r.t.Context(), id, in)
}

// input returns an unused input id.
func (r *Rig) input(kind string) string {
	r.inputs++
	return fmt.Sprintf("%s-%d", kind, r.inputs)
}

// Ask sends a prompt and waits for the end of its turn.
func (r *Rig) Ask(text string) event.SessionIdle {
	r.t.Helper()
	r.Send(text)
	return r.AwaitIdle()
}

// Interrupt interrupts the running turn, waits until the agent is idle, and sweeps the
// processes that the turn left.
func (r *Rig) Interrupt() event.SessionIdle {
	r.t.Helper()
	r.Say(r.input("interrupt"), adapters.Interrupt{})
	idle := r.AwaitIdle()
	r.Sweep()
	return idle
}

// Sweep ends the processes that the turn left, and checks that none remains.
func (r *Rig) Sweep() runner.Swept {
	r.t.Helper()
	swept, err := r.conn.Sweep(r.t.Context(), r.marked)
	require.NoError(r.t, err)
	require.Empty(r.t, swept.Left)
	return swept
}

// Left returns the processes below the agent that were not there before the last
// prompt.
func (r *Rig) Left() []runner.Process {
	r.t.Helper()
	now, err := r.conn.Processes(r.t.Context())
	require.NoError(r.t, err)
	return slices.DeleteFunc(now, func(p runner.Process) bool {
		return p.State == "Z" || slices.ContainsFunc(r.marked.Processes, func(m runner.Process) bool {
			return m.Pid == p.Pid && m.Start == p.Start
		})
	})
}

// Answer answers a permission request. A non-empty input replaces the tool's.
func (r *Rig) Answer(asked event.PermissionRequested, allow bool, message string, input json.RawMessage) {
	r.t.Helper()
	if len(input) == 0 {
		input = asked.Input
	}
	r.Say("answer-"+asked.RequestID, adapters.Answer{RequestID: asked.RequestID, Allow: allow, Message: message, Input: input})
}

// SetModel changes the model, from the next request on.
func (r *Rig) SetModel(model string) {
	r.t.Helper()
	r.Launch.Model = model
	r.Say(r.input("model"), adapters.SetModel{Model: model})
}

// SetPermission changes the permission mode. A process that can't change to it, or that was
// started to run everything and is to ask, is started anew, as by a host.
func (r *Rig) SetPermission(p adapters.Permission) {
	r.t.Helper()
	r.Launch.Permission = p
	err := adapters.ErrUnsupported
	if !p.Asks() || !r.mustRestartToAsk {
		err = r.trySay(r.input("permission"), adapters.SetPermission{Permission: p})
	}
	if errors.Is(err, adapters.ErrUnsupported) {
		r.Restart()
		return
	}
	require.NoError(r.t, err)
}

// Is is a predicate for Await that matches any event with that payload.
func Is[P event.Payload](e event.Event) bool {
	_, ok := e.Payload.(P)
	return ok
}

// AwaitIdle waits for the end of the main conversation's turn.
func (r *Rig) AwaitIdle() event.SessionIdle {
	r.t.Helper()
	return r.Await("the end of the turn", isIdle).Payload.(event.SessionIdle)
}

func isIdle(e event.Event) bool {
	return Is[event.SessionIdle](e) && e.Context.Conversation() == event.Main
}

// Await returns the next wanted event after the last one awaited. It fails the test if
// the agent ends or the wait is too long.
func (r *Rig) Await(what string, wanted func(event.Event) bool) event.Event {
	r.t.Helper()
	var found event.Event
	r.until(what, func() bool {
		for r.cursor < len(r.events) {
			e := r.events[r.cursor]
			r.cursor++
			if wanted(e) {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// AwaitPermission waits for a permission request.
func (r *Rig) AwaitPermission() event.PermissionRequested {
	r.t.Helper()
	return r.Await("a permission request", Is[event.PermissionRequested]).Payload.(event.PermissionRequested)
}

// AwaitDelta waits for streamed text that contains the word, or for a whole block with
// it.
func (r *Rig) AwaitDelta(word string) {
	r.t.Helper()
	r.until("text with "+word, func() bool {
		return slices.ContainsFunc(r.fold.State().Blocks, func(b event.Block) bool {
			return b.Type == event.BlockAssistantText && b.Content != nil && strings.Contains(*b.Content, word)
		})
	})
}

// until waits for a condition. met is called with the lock held, after every change.
func (r *Rig) until(what string, met func() bool) {
	r.t.Helper()
	limit := time.After(patience)
	for {
		r.mu.Lock()
		ok, changed, faults := met(), r.changed, r.faults
		r.mu.Unlock()
		if ok {
			return
		}
		if len(faults) > 0 || !r.alive() {
			r.give("the agent ended, or failed, before "+what, faults)
		}
		select {
		case <-changed:
		case <-limit:
			r.give("there was never "+what, faults)
		}
	}
}

// give fails the test and prints the faults, the last records and the conversation.
func (r *Rig) give(what string, faults []error) {
	r.t.Helper()
	require.FailNow(r.t, what, "faults: %v\n%s\n%s", faults, r.tail(), clip(pretty(r.Live()), 6000))
}

// tail returns the last records.
func (r *Rig) tail() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out strings.Builder
	for _, p := range r.parts {
		for i, rec := range p.records {
			if i >= len(p.records)-25 {
				fmt.Fprintf(&out, "%s %-3s %s\n", rec.TS.Format("05.000"), rec.Dir, clip(rec.Line, 400))
			}
		}
	}
	return out.String()
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}

// Live returns the conversation folded from the events.
func (r *Rig) Live() reducer.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fold.State()
}

// Events returns all events since the scenario began.
func (r *Rig) Events() []event.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events[r.earlier.events:])
}

// Restored returns the conversation of the transcripts in the agent's home.
func (r *Rig) Restored() (reducer.State, []error) { return r.parse() }

// Said returns the text of the last assistant_text block of the main conversation.
func (r *Rig) Said() string {
	for _, b := range slices.Backward(r.Live().Blocks) {
		if b.Type == event.BlockAssistantText && b.Content != nil {
			return *b.Content
		}
	}
	return ""
}

// Blocks returns the main conversation's blocks of one type since the scenario began.
func (r *Rig) Blocks(t event.BlockType) []event.Block {
	var out []event.Block
	for _, b := range r.Live().Blocks {
		if b.Type == t && !r.earlier.ids[b.ID] {
			out = append(out, b)
		}
	}
	return out
}

// Subagents returns the subagents of a conversation since the scenario began.
func (r *Rig) Subagents(of reducer.State) []reducer.Subagent {
	return slices.DeleteFunc(slices.Clone(of.Subagents), func(s reducer.Subagent) bool { return r.earlier.ids[s.ToolUseID] })
}

// Heard reports whether one of the last requests to the model contained the words.
func (r *Rig) Heard(words string) bool {
	quoted, _ := json.Marshal(words) // a string can always be encoded
	inner := string(quoted[1 : len(quoted)-1])
	return slices.ContainsFunc(r.Model.Recorded(), func(q modelsim.Recorded) bool {
		return strings.Contains(string(q.Body), inner)
	})
}

// Times returns how often words are in the last request to the model that has prompt in it.
func (r *Rig) Times(prompt, words string) (times int) {
	for _, q := range r.Model.Recorded() {
		if body := string(q.Body); strings.Contains(body, prompt) {
			times = strings.Count(body, words)
		}
	}
	return times
}

// ends counts the ends of the main conversation's turns. The caller holds the lock.
func (r *Rig) ends() int {
	n := 0
	for _, e := range r.events {
		if isIdle(e) {
			n++
		}
	}
	return n
}

// threadsOf returns the blocks of all subagents.
func threadsOf(s reducer.State) []event.Block {
	var out []event.Block
	for _, sub := range s.Subagents {
		out = append(out, sub.Blocks...)
	}
	return out
}
