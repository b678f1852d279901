package modelsim

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Codex lends its own models one tool, by which they run scripts in JavaScript;
// what other models call directly are functions of those scripts.

// codeTool runs a script, codeWait waits for one that takes its time.
const (
	codeTool = "functions.exec"
	codeWait = "functions.wait"
)

// codePrefix begins the names of the tools that scripts can call.
const codePrefix = codeTool + "."

// maxScriptWait is how long to wait for a script at a time, in milliseconds.
const maxScriptWait = 300_000

// nestedTool finds the tools of scripts in the description of the tool that
// runs them.
var nestedTool = regexp.MustCompile("(?m)^### `([A-Za-z0-9_]+)`$")

func (c *Conversation) offerNested(description string) {
	for _, m := range nestedTool.FindAllStringSubmatch(description, -1) {
		c.Tools = append(c.Tools, codePrefix+m[1])
	}
}

// scripts reports whether tools are called by scripts.
func scripts(tools []string) bool { return slices.Contains(tools, codeTool) }

// inScript returns the function of a script that a name means; ok is false for
// tools that are called directly.
func inScript(name string, tools []string) (function string, ok bool) {
	if !scripts(tools) {
		return "", false
	}
	if function, ok = strings.CutPrefix(name, codePrefix); ok {
		return function, true
	}
	function = strings.ReplaceAll(name, ".", "__")
	if slices.Contains(tools, codePrefix+function) {
		return function, true
	}
	space, base := splitName(name, tools)
	return function, space == "" && !slices.Contains(tools, base)
}

// script is the source of a script that makes calls, all at once, and prints
// what came of each. ok is false if they are not for scripts.
func script(calls []Call, tools []string) (source string, ok bool) {
	wishes := make([]string, len(calls))
	for i, c := range calls {
		name, input := nativeCall(c, tools, responsesDialect())
		function, nested := inScript(name, tools)
		if !nested {
			return "", false
		}
		wishes[i] = "tools." + function + "(" + string(argument(function, input)) + ")"
	}
	if len(wishes) == 1 {
		return "const r = await " + wishes[0] + ";\n" + "text(" + told + ");\n", true
	}
	return inTurn + "for (const call of [\n  () => " + strings.Join(wishes, ",\n  () => ") + ",\n]) {\n" + startOne + "}\n" +
		"for (const { value: r, reason } of await Promise.allSettled(calls)) text(reason ? String(reason) : " + told + ");\n", true
}

// Calls that begin in the same moment are reported in any order. So each begins a
// moment after the one before, or after its end.
const (
	inTurn   = "const pause = () => new Promise((go) => setTimeout(go, 100));\nconst calls = [];\n"
	startOne = "  calls.push(call());\n  await Promise.race([Promise.allSettled(calls), pause()]);\n"
)

// argument is what a function is called with; the one that takes a patch takes
// no object.
func argument(function string, input json.RawMessage) json.RawMessage {
	var patch struct {
		Input json.RawMessage `json:"input"`
	}
	if function == "apply_patch" && json.Unmarshal(input, &patch) == nil && len(patch.Input) > 0 {
		return patch.Input
	}
	return input
}

// told prints a result: the output of a command, and anything else whole.
const told = `r?.output === undefined ? r : r.exit_code ? r.output + "exit code " + r.exit_code : r.output`

// together joins the calls of an answer that a script makes, as one answer may
// have one script.
func (c Conversation) together(parts []part) []part {
	if !scripts(c.Tools) {
		return parts
	}
	var out []part
	for _, p := range parts {
		call, isCall := p.(callPart)
		if before, ok := lastCall(out); isCall && ok {
			calls := append(before.alone(), call.call)
			if _, ok := script(calls, c.Tools); ok {
				out[len(out)-1] = callPart{Call{Tool: ToolTogether, Together: calls}}
				continue
			}
		}
		out = append(out, p)
	}
	return out
}

func lastCall(parts []part) (Call, bool) {
	if len(parts) == 0 {
		return Call{}, false
	}
	p, ok := parts[len(parts)-1].(callPart)
	return p.call, ok
}

// alone returns the calls that a call consists of.
func (c Call) alone() []Call {
	if c.Tool == ToolTogether {
		return slices.Clone(c.Together)
	}
	return []Call{c}
}

// The words of the program about a script. One that could not be run because
// what runs scripts was gone is to be called again.
const (
	scriptRuns   = "Script running with cell ID "
	scriptFailed = "Script failed"
	scriptAgain  = "The exec runtime was replaced."
)

// scriptOutput reads what came of a script: a result for each text that it
// printed. One that still runs is waited for.
func (in *itemReader) scriptOutput(raw json.RawMessage) {
	head, texts := printed(raw)
	if strings.HasPrefix(head, scriptAgain) {
		return
	}
	cell := ""
	if rest, runs := strings.CutPrefix(head, scriptRuns); runs {
		cell, _, _ = strings.Cut(rest, "\n")
	}
	if t := in.turn(); t != nil {
		t.Cell = cell
	}
	for _, text := range texts {
		in.addResult(Result{Text: text, IsError: strings.HasPrefix(head, scriptFailed)})
	}
	if cell == "" && len(texts) == 0 { // it printed nothing, or was ended before
		if _, text, found := strings.Cut(head, "\nOutput:\n"); found {
			head = text
		}
		in.addResult(Result{Text: head})
	}
}

// printed takes the output of a script apart: the program's words, and the
// texts, of which some may be empty.
func printed(raw json.RawMessage) (head string, texts []string) {
	if json.Unmarshal(raw, &head) == nil {
		return head, nil
	}
	var pieces []textPiece
	if json.Unmarshal(raw, &pieces) != nil || len(pieces) == 0 {
		return string(raw), nil
	}
	for _, p := range pieces[1:] {
		texts = append(texts, p.Text)
	}
	return pieces[0].Text, texts
}

// mailed reads a message between agents: the task of this one, or the end of
// one that it started.
func (in *itemReader) mailed(item responsesItem) error {
	var pieces []struct {
		Text      string `json:"text"`
		Encrypted string `json:"encrypted_content"`
	}
	if err := json.Unmarshal(item.Content, &pieces); err != nil {
		return fmt.Errorf("content: %w", err)
	}
	text := ""
	for _, p := range pieces {
		text += p.Text + p.Encrypted
	}
	head, body, _ := strings.Cut(text, "\nPayload:\n")
	kind, _, _ := strings.Cut(strings.TrimPrefix(head, "Message Type: "), "\n")
	switch kind {
	case "NEW_TASK":
		in.addMessage([]string{body})
	case "FINAL_ANSWER":
		in.report(item.Author, quoted(body))
		if r, t := in.agent(item.Author), in.turn(); r != nil && t != nil && t.Waits > 0 {
			r.Waited = len(in.Turns)
		}
	}
	return nil
}
