// Package permission answers an agent's permission requests: by a session's default answer,
// and by rules for a tool and its arguments. It is pure, so that every worker answers a
// request alike.
package permission

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/event"
)

// Answer is the answer to an agent's permission request.
type Answer string

const (
	Allow Answer = "allow"
	// Ask leaves the answer to a person.
	Ask  Answer = "ask"
	Deny Answer = "deny"
)

// Valid reports whether an answer is one of the three.
func (a Answer) Valid() bool { return a == Allow || a == Ask || a == Deny }

// Asks reports whether an agent with this standing answer has to ask for what it does; with
// Allow, the default, it does not.
func (a Answer) Asks() bool { return a == Ask || a == Deny }

// Rule answers requests for some tools. In Tool and Match a * matches any text, and all
// else itself.
type Rule struct {
	// Tool is the tool's name in requests, as events have it (Bash, bash, shell,
	// run_shell_command); case does not count. Required.
	Tool string `json:"tool"`
	// Match is compared with what the tool is to do: a command, or a path or an
	// address. Default: anything. A rule that allows must match each of the commands
	// of a shell line and each path, and matches none with a redirection, a
	// substitution or a .. in it, whose effect a pattern can't bound; one that denies
	// or asks matches where any of them does, or any other text of the request. It
	// matches a command also without quotes and backslashes, with single blanks, and
	// behind what only runs another one (sudo, env, A=b, then).
	Match string `json:"match,omitempty"`
	// Answer is allow, ask or deny. Required.
	Answer Answer `json:"answer"`
	// Reason is passed to the agent with a denial. Default: that a rule denies it.
	Reason string `json:"reason,omitempty"`
}

// Policy is everything that may answer a request.
type Policy struct {
	// Standing answers requests that no rule matches.
	Standing Answer   `json:"standing,omitempty"`
	Rules    Rules    `json:"rules,omitempty"`
	Deadline Deadline `json:"deadline,omitzero"`
	Park     Park     `json:"park,omitempty"`
	// Effects decide about calls whose effect is unknown.
	Effects EffectRules `json:"effects,omitempty"`
}

// Over returns this policy over another one: its rules are tried first, and its other
// answers replace those of the other where they are set.
func (p Policy) Over(other Policy) Policy {
	return Policy{
		Standing: cmp.Or(p.Standing, other.Standing), Rules: slices.Concat(p.Rules, other.Rules), Deadline: cmp.Or(p.Deadline, other.Deadline),
		Park: cmp.Or(p.Park, other.Park), Effects: slices.Concat(p.Effects, other.Effects),
	}
}

// Answer answers a request, and returns the reason of a denial. What is neither allowed nor
// denied is left to a person.
func (p Policy) Answer(req event.PermissionRequested) (Answer, string) {
	return p.Rules.Answer(req, p.Standing)
}

// Mode returns the permission mode for the agent itself: with rules it must ask,
// whatever the default answer is.
func (p Policy) Mode() Answer {
	if len(p.Rules) > 0 {
		return Ask
	}
	return p.Standing
}

// Deadline answers a request that no person has answered in time.
type Deadline struct {
	// AfterMS is how long a request waits for a person, in milliseconds. 0: without limit.
	AfterMS int64 `json:"afterMs,omitempty"`
	// Answer is allow or deny. Default: deny.
	Answer Answer `json:"answer,omitempty"`
}

// FieldError names an invalid field, and its valid values.
type FieldError struct{ Field, Reason, Want string }

func (e *FieldError) Error() string {
	return fmt.Sprintf("field %s %s, want %s", e.Field, e.Reason, e.Want)
}

// Validate returns a *FieldError for the first invalid field.
func (d Deadline) Validate() error {
	switch {
	case d.AfterMS < 0 || d.AfterMS > MaxMS:
		return &FieldError{"permissionDeadline.afterMs", fmt.Sprintf("is %d", d.AfterMS), "0 (for ever), or the milliseconds of at most 100 years"}
	case d.Answer != "" && d.Answer != Allow && d.Answer != Deny:
		return &FieldError{"permissionDeadline.answer", fmt.Sprintf("is %q", d.Answer), "allow or deny"}
	}
	return nil
}

// Passed returns the answer to a request made at asked, once it is late. A question to the
// user is never allowed so: that would be an answer that says nothing.
func (d Deadline) Passed(req event.PermissionRequested, asked, now time.Time) (answer Answer, reason string, late bool) {
	after := time.Duration(d.AfterMS) * time.Millisecond
	if after == 0 || now.Sub(asked) < after {
		return "", "", false
	}
	if d.Answer == Allow && len(req.Questions) == 0 {
		return Allow, "", true
	}
	return Deny, fmt.Sprintf("Nobody answered within %s.", after), true
}

// Rules are tried in order: the first that matches answers.
type Rules []Rule

// Validate returns a *FieldError for the first invalid field.
func (rs Rules) Validate() error {
	for i, r := range rs {
		if r.Tool == "" {
			return &FieldError{fmt.Sprintf("permissions[%d].tool", i), "is empty", "the name of a tool, or *"}
		}
		if !r.Answer.Valid() {
			return &FieldError{fmt.Sprintf("permissions[%d].answer", i), fmt.Sprintf("is %q", r.Answer), "allow, ask or deny"}
		}
	}
	return nil
}

// Answer answers a request, and returns the reason of a denial. A question to the user is not
// about a tool: no rule answers it, and no allowance does, which would say nothing. It is left
// to a person unless everything is denied.
func (rs Rules) Answer(req event.PermissionRequested, standing Answer) (Answer, string) {
	switch {
	case len(req.Questions) > 0 && standing == Deny:
		return Deny, "Nobody answers questions in this session."
	case len(req.Questions) > 0:
		return Ask, ""
	}
	tool := strings.ToLower(req.ToolName)
	about := sync.OnceValue(func() subject { return subjectOf(tool, req.Input) })
	for _, r := range rs {
		if like(strings.ToLower(r.Tool), tool) && r.matches(about()) {
			return r.Answer, r.reason()
		}
	}
	return standing, "This session's policy denies it."
}

func (r Rule) reason() string {
	switch {
	case r.Reason != "":
		return r.Reason
	case r.Match != "":
		return fmt.Sprintf("A rule of this session denies it: %s %s.", r.Tool, r.Match)
	}
	return fmt.Sprintf("A rule of this session denies it: %s.", r.Tool)
}

func (r Rule) matches(s subject) bool {
	if r.Match == "" || r.Match == "*" {
		return true
	}
	if r.Answer == Allow {
		return len(s.acts) > 0 && !slices.ContainsFunc(s.acts, func(act string) bool { return unbounded(act) || !like(r.Match, act) })
	}
	plain := plainPattern(r.Match)
	return slices.ContainsFunc(slices.Concat(s.acts, s.texts), func(text string) bool { return like(r.Match, text) }) ||
		slices.ContainsFunc(s.spellings, func(text string) bool { return like(plain, text) })
}

// subject is what a request is about: acts are what it does, which limit an allowing rule;
// texts are all its texts, and spellings the plain forms of its commands.
type subject struct {
	acts, texts, spellings []string
	// globs reports whether the field pattern has paths; elsewhere it is a regular
	// expression.
	globs bool
}

// The fields of the agents' requests that name what a tool acts on, by the
// recordings of their streams.
var (
	commandFields = []string{"command", "cmd"}
	placeFields   = []string{"file_path", "filePath", "filepath", "path", "absolute_path", "notebook_path", "dir_path", "movePath", "move_path", "destination", "paths", "url", "uri", "patterns"}
)

func subjectOf(tool string, input json.RawMessage) subject {
	s := subject{globs: strings.Contains(tool, "glob")}
	var v any
	if json.Unmarshal(input, &v) == nil {
		s.collect("", v)
	}
	return s
}

func (s *subject) collect(field string, v any) {
	switch v := v.(type) {
	case string:
		s.texts = append(s.texts, v)
		switch {
		case slices.Contains(commandFields, field):
			s.acts = append(s.acts, commands(v)...)
			s.spellings = append(s.spellings, spellings(v)...)
		case slices.Contains(placeFields, field):
			s.acts = append(s.acts, v)
		}
	case []any:
		if slices.Contains(commandFields, field) {
			s.collect(field, strings.Join(words(v), " "))
			return
		}
		for _, e := range v {
			s.collect(field, e)
		}
	case map[string]any:
		for name, e := range v {
			s.texts = append(s.texts, name)
			s.collect(name, e)
		}
		s.morePlaces(v)
	}
}

// morePlaces collects the paths in fields that have other values in other tools.
func (s *subject) morePlaces(fields map[string]any) {
	text := func(name string) string { v, _ := fields[name].(string); return v }
	if text("source") != "" && text("destination") != "" {
		s.acts = append(s.acts, text("source"))
	}
	pattern := text("pattern")
	if !s.globs || pattern == "" {
		return
	}
	if folder := cmp.Or(text("path"), text("dir_path")); folder != "" && !strings.HasPrefix(pattern, "/") && !strings.HasPrefix(pattern, "~") {
		pattern = strings.TrimSuffix(folder, "/") + "/" + pattern
	}
	s.acts = append(s.acts, pattern)
}

// words returns a command that is passed as its arguments.
func words(args []any) []string {
	var out []string
	for _, a := range args {
		if word, ok := a.(string); ok {
			out = append(out, word)
		}
	}
	return out
}

// like reports whether text matches a pattern.
func like(pattern, text string) bool {
	head, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, head)
	if !ok {
		return false
	}
	for {
		part, next, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(text, part)
		}
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text, rest = text[at+len(part):], next
	}
}
