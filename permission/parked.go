package permission

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/event"
)

// maxKept bounds the stored inputs of parked requests, in bytes: they are in the workflow's
// history. The conversation has them whole.
const maxKept = 16 << 10

// Request is a permission request whose turn is parked.
type Request struct {
	ID        string `json:"requestId"`
	ToolName  string `json:"toolName,omitempty"`
	ToolUseID string `json:"toolUseId,omitempty"`
	Title     string `json:"title,omitempty"`
	// Input and Questions are as in event.PermissionRequested; Cut reports that they are
	// left out because they are long: then the Questions of a question are an empty list.
	Input     json.RawMessage `json:"input,omitempty"`
	Questions json.RawMessage `json:"questions,omitempty"`
	Cut       bool            `json:"cut,omitempty"`
	// Call identifies the tool and all of its input; see [Call].
	Call string `json:"call"`
	// At is when the agent asked.
	At time.Time `json:"at"`
}

// Event returns the request as the agent made it, without what was cut.
func (r Request) Event() event.PermissionRequested {
	return event.PermissionRequested{
		RequestID: r.ID, ToolName: r.ToolName, ToolUseID: r.ToolUseID, Title: r.Title, Input: r.Input, Questions: r.Questions,
	}
}

// Call identifies what a request asks for: the tool, its input and its questions. Two
// requests have the same Call if they are equal as JSON, apart from the folders of their
// sandboxes.
func Call(folders []string, tool string, input, questions json.RawMessage) string {
	sum := sha256.New()
	for _, part := range []string{tool, canonical(input), canonical(questions)} {
		for i, folder := range folders {
			part = strings.ReplaceAll(part, folder, fmt.Sprintf("\x00%d", i))
		}
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// canonical returns a JSON value with sorted names and without space; invalid JSON is
// returned as it is.
func canonical(raw json.RawMessage) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil || d.More() {
		return string(raw)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(out)
}

// Decision is the decision on a request while its turn was parked.
type Decision struct {
	Request
	Allow bool `json:"allow"`
	// Message is what the agent gets with a denial.
	Message string `json:"message,omitempty"`
	// Given replaces the tool's input, or has the answers to a question.
	Given json.RawMessage `json:"given,omitempty"`
	// By is as in event.PermissionResolved.
	By string `json:"by"`
	// Used is the request that it has answered, made by the resumed agent; "" before there
	// is one.
	Used string `json:"used,omitempty"`
}

// Take returns the decision that answers a request with the very same tool and input. Each
// is used once; a request that is seen again gets the same one again. folders are those of
// the sandbox, see [Parked].
func Take(ds []Decision, p event.PermissionRequested, folders []string) (Decision, bool) {
	call := Call(folders, p.ToolName, p.Input, p.Questions)
	for i, d := range ds {
		if d.Used == p.RequestID || d.Used == "" && d.answers(call, folders) {
			ds[i].Used = p.RequestID
			return d, true
		}
	}
	return Decision{}, false
}

// answers reports whether a decision was made about a call. A person who changed the input
// has decided about the changed call alone.
func (d Decision) answers(call string, folders []string) bool {
	if d.Allow && len(d.Given) > 0 && len(d.Questions) == 0 {
		return call == Call(folders, d.ToolName, d.Given, nil)
	}
	return call == d.Call
}

// Parked is a turn that waits for a person without an agent and a sandbox. The zero value
// is a turn that is not parked.
type Parked struct {
	Since time.Time `json:"since"`
	// Requests are those without an answer, oldest first.
	Requests  []Request  `json:"requests,omitempty"`
	Decisions []Decision `json:"decisions,omitempty"`
	// Deadline is the one that applied.
	Deadline Deadline `json:"deadline,omitzero"`
	// Folders are the paths of the sandbox that was given up: the next one has others.
	Folders []string `json:"folders,omitempty"`
	// PromptID is the agent's id for the turn's message; "" if it is unknown.
	PromptID string `json:"promptId,omitempty"`
}

// Add adds an open request with the time at which it was made.
func (p *Parked) Add(ask event.PermissionRequested, at time.Time) {
	r := Request{
		ID: ask.RequestID, ToolName: ask.ToolName, ToolUseID: ask.ToolUseID, Title: ask.Title, Input: ask.Input, Questions: ask.Questions,
		Call: Call(p.Folders, ask.ToolName, ask.Input, ask.Questions), At: at,
	}
	kept := len(r.Input) + len(r.Questions)
	for _, before := range p.Requests {
		kept += len(before.Input) + len(before.Questions)
	}
	if kept > maxKept {
		r.Input, r.Cut = nil, true
		if len(r.Questions) > 0 {
			r.Questions = json.RawMessage(`[]`) // still a question
		}
	}
	p.Requests = append(p.Requests, r)
}

// MovedTo returns the decisions with the paths of another sandbox; p may be nil.
func (p *Parked) MovedTo(folders []string) []Decision {
	if p == nil {
		return nil
	}
	moved := slices.Clone(p.Decisions)
	for i := range min(len(folders), len(p.Folders)) {
		for j := range moved {
			for _, raw := range []*json.RawMessage{&moved[j].Input, &moved[j].Given} {
				*raw = bytes.ReplaceAll(*raw, []byte(p.Folders[i]), []byte(folders[i]))
			}
		}
	}
	return moved
}

// Open returns the ids of the requests without an answer; p may be nil.
func (p *Parked) Open() []string {
	if p == nil {
		return nil
	}
	ids := make([]string, len(p.Requests))
	for i, r := range p.Requests {
		ids[i] = r.ID
	}
	return ids
}

// Calls returns the tool calls of all requests, whatever was decided; p may be nil.
func (p *Parked) Calls() (toolUseIDs []string) {
	if p == nil {
		return nil
	}
	for _, r := range p.Requests {
		toolUseIDs = append(toolUseIDs, r.ToolUseID)
	}
	for _, d := range p.Decisions {
		toolUseIDs = append(toolUseIDs, d.ToolUseID)
	}
	return toolUseIDs
}

// Decide takes the answer to a request: Allow, Message, Given and By of answer. known
// reports whether the turn was parked with the request; the first answer counts, and first
// reports whether this is it. p may be nil.
func (p *Parked) Decide(id string, answer Decision) (known, first bool) {
	if p == nil {
		return false, false
	}
	at := slices.Index(p.Open(), id)
	if at < 0 {
		return slices.ContainsFunc(p.Decisions, func(d Decision) bool { return d.ID == id }), false
	}
	answer.Request = p.Requests[at]
	p.Decisions = append(p.Decisions, answer)
	p.Requests = slices.Delete(p.Requests, at, at+1)
	return true, true
}

// Late returns the deadline's answers to the late requests, by their ids, and the time
// until the next one is late; 0 for never.
func (p *Parked) Late(now time.Time) (late []Decision, next time.Duration) {
	for _, r := range p.Requests {
		if answer, reason, passed := p.Deadline.Passed(r.Event(), r.At, now); passed {
			late = append(late, Decision{Request: r, Allow: answer == Allow, Message: reason, By: event.ByDeadline})
		} else if p.Deadline.AfterMS > 0 {
			in := r.At.Add(time.Duration(p.Deadline.AfterMS) * time.Millisecond).Sub(now)
			next = min(cmp.Or(next, in), in)
		}
	}
	return late, next
}

// Notice returns the conversation's text about the parking and its requests.
func (p *Parked) Notice() string {
	asks := make([]string, len(p.Requests))
	for i, r := range p.Requests {
		asks[i] = fmt.Sprintf("request %s: %s", r.ID, r.words())
	}
	return "nobody answered in time: the agent is stopped and its sandbox given up until somebody does; " + strings.Join(asks, "; ")
}

func (r Request) words() string {
	what := string(r.Input)
	switch {
	case r.Cut:
		what = "(what it asks for is long, and in the conversation)"
	case len(r.Questions) > 0:
		what = string(r.Questions)
	}
	return strings.TrimSpace(cmp.Or(r.ToolName, r.Title, "a question") + " " + what)
}

// Summary returns the conversation's text about what was decided, and by whom.
func Summary(ds []Decision) string {
	out := make([]string, len(ds))
	for i, d := range ds {
		out[i] = fmt.Sprintf("%s is %s by %s", d.words(), d.verdict(), d.By)
	}
	return strings.Join(out, "; ")
}

func (d Decision) verdict() string {
	switch {
	case !d.Allow:
		return "denied"
	case len(d.Questions) > 0:
		return "answered"
	case len(d.Given) > 0:
		return "allowed with other arguments"
	}
	return "allowed"
}

// WordsHead is how [Words] begin.
const WordsHead = "While you waited for permission, nobody answered for a long time, and the machine that you worked on was given up. "

// Words returns the text for the agent about the decisions on the calls that it had
// requested before it was stopped.
func Words(ds []Decision) string {
	var b strings.Builder
	b.WriteString(WordsHead + "What was running then has ended. Since then this was decided of what you had asked:\n")
	for _, d := range ds {
		fmt.Fprintf(&b, "\n- %s\n", d.instruction())
	}
	b.WriteString("\nThen continue where you stopped.")
	return b.String()
}

func (d Decision) instruction() string {
	what := fmt.Sprintf("%s: %s.", d.verdict(), d.words())
	switch {
	case !d.Allow && d.Message != "":
		return what + " Do not do it. The answer was: " + d.Message
	case !d.Allow:
		return what + " Do not do it."
	case len(d.Questions) > 0:
		return what + " The answer is: " + string(d.Given)
	case len(d.Given) > 0:
		return fmt.Sprintf("%s Do not run that, but run %s now with exactly these arguments: %s", what, d.ToolName, d.Given)
	}
	return what + " Run it now, exactly so."
}
