package modelsim

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Conversation is a request without its wire: what a model gets to see.
type Conversation struct {
	// Turns are the prompts in order, each with what came after it.
	Turns []Turn
	// Tools are the names of the tools on offer.
	Tools []string
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
	// Notices counts the reports of background work after the prompt.
	Notices int
}

// Result is what a tool gave back.
type Result struct {
	Text    string
	IsError bool
}

// Tool is a kind of tool that a script asks for; the wire knows the agent's
// name for it.
type Tool int

// The kinds of tools. ToolNamed carries the agent's own name.
const (
	ToolNamed Tool = iota
	ToolBash
	ToolWrite
	ToolRead
	ToolSubagent
)

// Call is a wish to call a tool. Which fields count depends on Tool.
type Call struct {
	Tool Tool
	// Name and Input belong to ToolNamed.
	Name  string
	Input json.RawMessage
	// Command belongs to ToolBash.
	Command string
	// File belongs to ToolWrite and ToolRead, Content to ToolWrite.
	File, Content string
	// Prompt and Background belong to ToolSubagent.
	Prompt     string
	Background bool
}

// reply decides the answer to a conversation. It is pure: the same
// conversation always gets the same reply. An error means that the script
// itself is wrong.
func reply(c Conversation) ([]part, error) {
	turn := c.last()
	steps, err := parseScript(turn.Prompt)
	if err != nil {
		return nil, err
	}
	rest, called := skipDone(steps, turn)
	if len(rest) == 0 && called {
		return []part{textPart{final(turn.Results)}}, nil
	}
	return answer(c, rest), nil
}

func (c Conversation) last() Turn {
	if len(c.Turns) == 0 {
		return Turn{}
	}
	return c.Turns[len(c.Turns)-1]
}

// skipDone drops the steps that earlier answers to this prompt held: all up
// to the last call whose results are in. called says that there was one.
func skipDone(steps []step, turn Turn) (rest []step, called bool) {
	results, notices := len(turn.Results), turn.Notices
	rest = steps
	for i, s := range steps {
		switch _, waits := s.(waitStep); {
		case waits && notices > 0:
			notices--
		case waits:
			return rest, called
		case s.consumes() == 0:
			continue
		case results < s.consumes():
			return rest, called
		default:
			results -= s.consumes()
		}
		rest, called = steps[i+1:], true
	}
	return rest, called
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

func (s callStep) parts(Conversation) []part {
	switch s.call.Tool {
	case ToolBash:
		return []part{textPart{"Running it."}, callPart(s)}
	case ToolSubagent:
		return []part{textPart{"Delegating."}, callPart(s)}
	}
	return []part{callPart(s)}
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

func (s recallStep) parts(c Conversation) []part { return []part{textPart{recall(c)}} }
func (s recallStep) consumes() int               { return 0 }

func (s playStep) parts(Conversation) []part { return []part{s.part} }
func (s playStep) consumes() int             { return 0 }
