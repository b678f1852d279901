package modelsim

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// The bounds of step arguments. They keep a mistyped prompt from filling the
// memory of the machine that runs the tests.
const (
	maxDeltas = 100_000
	maxBig    = 64 << 20
	maxWait   = 24 * time.Hour
)

// step is one parsed step of a script.
type step interface {
	// parts is what the step contributes to an answer.
	parts(c Conversation) []part
	// consumes is how many tool results show that the step is over; 0 for a
	// step that calls no tool.
	consumes() int
}

type (
	sayStep    struct{ text string }
	thinkStep  struct{ text string }
	callStep   struct{ call Call }
	twoStep    struct{}
	waitStep   struct{}
	recallStep struct{}
	// awaitStep is in no script: it waits for a subagent that must be waited
	// for by a call.
	awaitStep struct{ agent string }
	playStep  struct{ part part }
)

// parser reads the argument of one word.
type parser func(arg string) (s step, err error)

// words maps the first word of a step to the parser of the rest.
func words() map[string]parser {
	return map[string]parser{
		"SAY":        func(a string) (step, error) { return sayStep{a}, nil },
		"THINK":      func(a string) (step, error) { return thinkStep{a}, nil },
		"TOOL":       parseTool,
		"CALL":       parseCall,
		"TWO":        bare(twoStep{}),
		"SUBAGENT":   func(a string) (step, error) { return parseSubagent(a, false) },
		"SUBAGENTBG": func(a string) (step, error) { return parseSubagent(a, true) },
		"WAITAGENT":  bare(waitStep{}),
		"RECALL":     func(string) (step, error) { return recallStep{}, nil },
		"SLOW":       parseSlow,
		"HANG":       parseHang,
		"DELTAS":     parseDeltas,
		"BIG":        parseBig,
		"GATE":       parseGate,
		"CUT":        func(string) (step, error) { return playStep{cutPart{}}, nil },
	}
}

// parseScript reads a prompt. A prompt that is no script is one step that
// echoes it.
func parseScript(text string) ([]step, error) {
	text = strings.TrimSpace(text)
	if !isScript(text) {
		return []step{echo(text)}, nil
	}
	var steps []step
	for _, line := range strings.Split(text, " THEN ") {
		s, err := parseStep(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", len(steps)+1, err)
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// isScript reports whether a text begins with a word of the script language.
func isScript(text string) bool {
	word, _ := cutWord(text)
	_, known := words()[word]
	_, fails := errorStatus(word)
	return known || fails
}

func parseStep(line string) (step, error) {
	word, arg := cutWord(line)
	if status, ok := errorStatus(word); ok {
		return playStep{failPart{status, fmt.Sprintf("scripted error %d", status)}}, nil
	}
	parse, ok := words()[word]
	if !ok {
		return echo(line), nil
	}
	s, err := parse(arg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", word, err)
	}
	return s, nil
}

func cutWord(line string) (word, rest string) {
	i := strings.IndexAny(line, " \t\n")
	if i < 0 {
		return line, ""
	}
	return line[:i], strings.TrimSpace(line[i+1:])
}

// errorStatus reads ERRnnn.
func errorStatus(word string) (int, bool) {
	digits, ok := strings.CutPrefix(word, "ERR")
	if !ok || len(digits) != 3 {
		return 0, false
	}
	status, err := strconv.Atoi(digits)
	return status, err == nil && status >= 400 && status < 600
}

// echo answers a prompt that is no script. The answer is bounded, as some
// agents send prompts of their own that hold a whole conversation.
func echo(text string) step {
	return sayStep{"You said: " + head(text, 2000)}
}

func bare(s step) parser {
	return func(arg string) (step, error) {
		if arg != "" {
			return nil, fmt.Errorf("takes no argument, got %q", head(arg, 40))
		}
		return s, nil
	}
}

func parseTool(arg string) (step, error) {
	kind, rest, ok := strings.Cut(arg, ":")
	rest = strings.TrimSpace(rest)
	if !ok || rest == "" {
		return nil, fmt.Errorf("want bash:, write: or read: and an argument, got %q", head(arg, 40))
	}
	switch kind {
	case "bash":
		return callStep{Call{Tool: ToolBash, Command: rest}}, nil
	case "read":
		return callStep{Call{Tool: ToolRead, File: rest}}, nil
	case "write":
		return parseWrite(rest)
	}
	return nil, fmt.Errorf("unknown tool %q, want bash, write or read", head(kind, 40))
}

func parseWrite(arg string) (step, error) {
	file, content, ok := strings.Cut(arg, "::")
	if file = strings.TrimSpace(file); !ok || file == "" {
		return nil, fmt.Errorf("want write: file :: content, got %q", head(arg, 40))
	}
	return callStep{Call{Tool: ToolWrite, File: file, Content: strings.TrimSpace(content) + "\n"}}, nil
}

func parseCall(arg string) (step, error) {
	name, input := cutWord(arg)
	if input == "" {
		input = "{}"
	}
	if name == "" || !json.Valid([]byte(input)) || input[0] != '{' {
		return nil, fmt.Errorf("want a name and a JSON object, got %q", head(arg, 40))
	}
	return callStep{Call{Tool: ToolNamed, Name: name, Input: json.RawMessage(inner(input))}}, nil
}

// inner takes one level of nesting off the joints of a script within a script.
func inner(script string) string {
	script = strings.ReplaceAll(script, " ANDTHEN ", " THEN ")
	return strings.ReplaceAll(script, " ANDANDTHEN ", " ANDTHEN ")
}

func parseSubagent(arg string, background bool) (step, error) {
	if arg == "" {
		return nil, fmt.Errorf("want a script for the subagent")
	}
	return callStep{Call{Tool: ToolSubagent, Prompt: inner(arg), Background: background}}, nil
}

func parseSlow(arg string) (step, error) {
	d, err := seconds(arg)
	return playStep{slowPart{d}}, err
}

func parseHang(arg string) (step, error) {
	d, err := seconds(arg)
	return playStep{hangPart{d}}, err
}

func parseDeltas(arg string) (step, error) {
	n, err := count(arg, maxDeltas)
	return playStep{deltasPart{n}}, err
}

func parseBig(arg string) (step, error) {
	n, err := count(arg, maxBig)
	return playStep{bigPart{n}}, err
}

func parseGate(arg string) (step, error) {
	if arg == "" || strings.ContainsAny(arg, " \t\n/") {
		return nil, fmt.Errorf("want a name without blanks and slashes, got %q", head(arg, 40))
	}
	return playStep{gatePart{arg}}, nil
}

func seconds(arg string) (time.Duration, error) {
	n, err := strconv.ParseFloat(arg, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > maxWait.Seconds() {
		return 0, fmt.Errorf("want seconds from 0 to %.0f, got %q", maxWait.Seconds(), head(arg, 40))
	}
	return time.Duration(n * float64(time.Second)), nil
}

func count(arg string, limit int) (int, error) {
	n, err := strconv.Atoi(arg)
	if err != nil || n < 0 || n > limit {
		return 0, fmt.Errorf("want a number from 0 to %d, got %q", limit, head(arg, 40))
	}
	return n, nil
}

// head cuts a text to its first n runes.
func head(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i] + "…"
		}
		n--
	}
	return s
}
