package modelsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Conversation is a request without its wire: what a model gets to see.
type Conversation struct {
	// Turns are the prompts in order, each with what came after it.
	Turns []Turn
	// Tools are the names of the tools on offer, "namespace.name" for those in
	// a namespace.
	Tools []string
	// Side reports whether the agent asks for itself, not for the user: for a title,
	// a summary, a judgement. Schema is what the answer must fit, if anything.
	Side   bool
	Schema json.RawMessage
	// Finish is the schema of the input of the tool by which a subagent must
	// hand in its result; nil if it has none.
	Finish json.RawMessage
}

// Turn is one prompt of the user and the results that have come in since.
type Turn struct {
	// Prompt is the text that the user wrote, without what the agent added.
	Prompt string
	// Results are the tool results after the prompt, in order.
	Results []Result
	// Folded are prompts that the user wrote while the agent was at work on
	// this one, and that the agent passed on beside a result.
	Folded []string
	// Notices counts the reports of background work after the prompt, Waits
	// the calls that did nothing but wait for it. Those are not among Results.
	Notices, Waits int
	// Cell is the id of a script of the model's that still runs, and that it
	// must wait for by a call; "" when none does.
	Cell string
}

// Result is what a tool gave back.
type Result struct {
	// Text is what the tool said; of a subagent, what it reported.
	Text    string
	IsError bool
	// Agent is the id of a subagent that the call started and that a model
	// must wait for by a call; "" for all other results.
	Agent string
	// Reported reports whether the subagent has ended, Waited is the turn in which a call
	// has waited for it, counted from 1; 0 means never.
	Reported bool
	Waited   int
}

// Tool is a kind of tool that a script asks for; the wire has the agent's
// name for it.
type Tool int

// The kinds of tools. ToolNamed carries the agent's own name.
const (
	ToolNamed Tool = iota
	ToolBash
	ToolWrite
	ToolRead
	ToolSubagent
	// ToolWait waits for subagents, ToolFinish hands in a subagent's result,
	// ToolTogether makes calls in one script, ToolWaitScript waits for one. No
	// script of ours asks for them: they are how some agents want it done.
	ToolWait
	ToolFinish
	ToolTogether
	ToolWaitScript
)

// Call is a wish to call a tool. Which fields count depends on Tool.
type Call struct {
	Tool Tool
	// Name and Input belong to ToolNamed, Input to ToolFinish too.
	Name  string
	Input json.RawMessage
	// Command is set for ToolBash.
	Command string
	// File is set for ToolWrite and ToolRead, Content for ToolWrite.
	File, Content string
	// Prompt and Background belong to ToolSubagent.
	Prompt     string
	Background bool
	// Task is the name of a subagent, where it needs one.
	Task string
	// Agents is set for ToolWait: the ids of those to wait for.
	Agents []string
	// Together is set for ToolTogether, Cell for ToolWaitScript.
	Together []Call
	Cell     string
}

// reply decides the answer to a conversation. It is pure: the same
// conversation always gets the same reply. An error means that the script
// itself is wrong.
func reply(c Conversation) ([]part, error) {
	if c.Side {
		return aside(c), nil
	}
	turn := c.last()
	if turn.Cell != "" {
		return []part{callPart{Call{Tool: ToolWaitScript, Cell: turn.Cell}}}, nil
	}
	steps, err := c.steps()
	if err != nil {
		return nil, err
	}
	rest, called := skipDone(c, steps)
	parts := answer(c, rest)
	if len(rest) == 0 && called {
		parts = []part{textPart{final(turn.Results)}}
	}
	if len(parts) == 0 {
		parts = []part{textPart{"Nothing to wait for."}}
	}
	return c.together(handIn(c, parts)), nil
}

func (c Conversation) last() Turn {
	if len(c.Turns) == 0 {
		return Turn{}
	}
	return c.Turns[len(c.Turns)-1]
}

// answer takes the steps of one answer: up to the first that calls a tool.
func answer(c Conversation, steps []step) []part {
	var parts []part
	for _, s := range steps {
		parts = append(parts, s.parts(c)...)
		if _, waits := s.(waitStep); waits || s.consumes() > 0 {
			break
		}
	}
	return parts
}

// handIn ends the last answer of a subagent as its agent demands: by a call
// with the result, if there is a tool for it.
func handIn(c Conversation, parts []part) []part {
	if c.Finish == nil {
		return parts
	}
	var said []string
	for _, p := range parts {
		switch p := p.(type) {
		case callPart, failPart, cutPart:
			return parts
		case textPart:
			said = append(said, p.text)
		}
	}
	input := quoted(instance(c.Finish, strings.Join(said, "\n"), maxSchema))
	return append(parts, callPart{Call{Tool: ToolFinish, Input: input}})
}

// final sums up results. It is cut, as it is read by people.
func final(results []Result) string {
	texts := make([]string, len(results))
	for i, r := range results {
		texts[i] = r.Text
		if r.IsError {
			texts[i] = "ERR:" + r.Text
		}
	}
	joined := []rune(strings.Join(texts, " | "))
	return fmt.Sprintf("FINAL after %d tool result(s): %s", len(results), string(joined[:min(len(joined), 160)]))
}

func recall(c Conversation) string {
	var earlier []string
	for _, t := range c.Turns[:max(len(c.Turns)-1, 0)] {
		for _, text := range append([]string{t.Prompt}, t.Folded...) {
			prompt := []rune(text)
			earlier = append(earlier, string(prompt[max(len(prompt)-60, 0):]))
		}
	}
	return fmt.Sprintf("RECALL I saw %d earlier prompts: %s", len(earlier), strings.Join(earlier, " || "))
}

func (s sayStep) parts(Conversation) []part { return []part{textPart(s)} }
func (s sayStep) consumes() int             { return 0 }

func (s thinkStep) parts(Conversation) []part {
	return []part{
		thinkPart{"Let me think about this: " + s.text},
		textPart{"I thought about: " + s.text},
	}
}
func (s thinkStep) consumes() int { return 0 }

func (s callStep) parts(c Conversation) []part {
	switch s.call.Tool {
	case ToolBash:
		return []part{textPart{"Running it."}, callPart(s)}
	case ToolSubagent:
		s.call.Task = c.nextTask()
		return []part{textPart{"Delegating."}, callPart(s)}
	case ToolNamed:
		s.call.Input = filled(s.call.Input, c.last().Results)
	}
	return []part{callPart(s)}
}

// field is a place in a call's input for a field of an earlier result.
var field = regexp.MustCompile(`\{\{([0-9]+)\.([a-z_]+)\}\}`)

// filled puts fields of earlier results, which must be JSON objects, into a call's input.
func filled(input json.RawMessage, results []Result) json.RawMessage {
	return field.ReplaceAllFunc(input, func(place []byte) []byte {
		at := field.FindSubmatch(place)
		n, err := strconv.Atoi(string(at[1]))
		if err != nil || n < 1 || n > len(results) {
			return place
		}
		var object map[string]json.RawMessage
		if json.Unmarshal([]byte(results[n-1].Text), &object) != nil {
			return place
		}
		return bytes.Trim(object[string(at[2])], `"`)
	})
}
func (s callStep) consumes() int { return 1 }

func (s twoStep) parts(Conversation) []part {
	return []part{
		textPart{"Two at once."},
		callPart{Call{Tool: ToolBash, Command: "echo first"}},
		callPart{Call{Tool: ToolBash, Command: "echo second"}},
	}
}
func (s twoStep) consumes() int { return 2 }

// A model can't wait: it ends its answer, and the agent asks it again when
// the background work has reported.
func (s waitStep) parts(Conversation) []part { return []part{textPart{"Waiting."}} }
func (s waitStep) consumes() int             { return 0 }

func (s awaitStep) parts(Conversation) []part {
	return []part{callPart{Call{Tool: ToolWait, Agents: []string{s.agent}}}}
}
func (s awaitStep) consumes() int { return 1 }

func (s recallStep) parts(c Conversation) []part { return []part{textPart{recall(c)}} }
func (s recallStep) consumes() int               { return 0 }

func (s playStep) parts(Conversation) []part { return []part{s.part} }
func (s playStep) consumes() int             { return 0 }
