package opencode

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
)

// The agent evaluates the rules of its settings, then those that are stored with the
// native session; the last that matches applies. A subagent's session gets none of its
// parent's, except for refusals and those of external folders, and a turn has the
// session's rules of its start. So a process gets the rules of its start in its settings,
// where they hold for subagents too, and what an earlier process stored with the session
// is overruled as it opens. Settings that allow everything can't be made to ask while the
// process runs: it is started anew.

// permissionVariable has the rules of a process, which go before those of its files.
const permissionVariable = "OPENCODE_PERMISSION"

// rule is one of the agent's permission rules; the last that matches applies.
type rule struct {
	Permission string `json:"permission"`
	Pattern    string `json:"pattern"`
	Action     string `json:"action"`
}

// harmless are the tools that need no permission: they change nothing outside of
// the conversation, or ask themselves for what they do.
var harmless = []string{"glob", "grep", "list", "lsp", "question", "read", "skill", "task", "todoread", "todowrite"}

// named are what the settings name in every mode: the files of the agent, or of the
// workspace, may have rules for it. A subagent may start subagents only if one names task.
var named = []string{"bash", "doom_loop", "edit", "external_directory", "task", "webfetch", "websearch"}

// permissionRules: with allow the agent never asks; with ask and deny it asks the
// host each time, and a person or the policy answers, so that the agent gets a
// refusal as text. Subagents inherit the rule for external folders, so it is named.
func permissionRules(p adapters.Permission) ([]rule, error) {
	switch {
	case p == adapters.PermissionAllow || p == "":
		return []rule{{"*", "*", "allow"}}, nil
	case p.Asks():
		rules := []rule{{"*", "*", "ask"}, {"external_directory", "*", "ask"}}
		for _, tool := range harmless {
			rules = append(rules, rule{tool, "*", "allow"})
		}
		return rules, nil
	}
	return nil, fmt.Errorf("opencode: permission is %q, want allow, ask or deny", p)
}

// permissionSettings returns the rules as settings.
func permissionSettings(p adapters.Permission) (string, error) {
	rules, err := permissionRules(p)
	if err != nil {
		return "", err
	}
	settings := map[string]string{}
	for _, tool := range named {
		settings[tool] = rules[0].Action
	}
	for _, r := range rules {
		settings[r.Permission] = r.Action
	}
	data, err := json.Marshal(settings) // sorted: "*" is first, so that it overrules no other
	return string(data), err
}

// asking marks the opening of a process whose settings ask, for readers of the records.
const asking = "#asks"

func (t *translator) encodeOpening(id string) ([]adapters.Message, error) {
	path := "/api/session"
	if t.launch.Permission.Asks() {
		path += asking
	}
	return request(id, "POST", path, map[string]any{
		"id": t.launch.NativeID, "location": map[string]any{"directory": t.launch.Workspace},
	})
}

// The further requests of the opening have its id and one of these: the session's stored
// rules are read, and overruled if they are others.
const (
	readingRules = "-rules"
	settingRules = "-set-rules"
)

// opens continues the opening if a response is one to it.
func (t *translator) opens(l *line, why string) {
	step, found := strings.CutPrefix(l.ID, t.Opening.Request)
	if t.Opening.Request == "" || !found || step != "" && step != readingRules && step != settingRules {
		return
	}
	t.Opening.Done, t.Opening.Refused = false, why
	switch {
	case why != "":
	case step == "":
		t.get(l.ID+readingRules, "/session/"+t.Main)
	case step == readingRules && t.stored(l.Body):
		t.overrule(t.Opening.Request + settingRules)
	default:
		t.Opening.Done = true
	}
}

// stored reports whether a session has other rules than those of the launch.
func (t *translator) stored(session json.RawMessage) bool {
	var s struct {
		Permission []rule `json:"permission"`
	}
	rules, _ := permissionRules(t.launch.Permission) // the process was started with it
	if err := json.Unmarshal(session, &s); err != nil {
		return true
	}
	n := len(s.Permission) - len(rules)
	return len(s.Permission) > 0 && (n < 0 || !slices.Equal(s.Permission[n:], rules))
}

// overrule stores the launch's rules with the session.
func (t *translator) overrule(id string) {
	m, err := t.encodePermission(id, t.launch.Permission)
	if err == nil { // the process was started with it
		t.due = append(t.due, m...)
	}
}

// encodePermission adds rules to those that are stored with the session.
func (t *translator) encodePermission(id string, p adapters.Permission) ([]adapters.Message, error) {
	rules, err := permissionRules(p)
	if err != nil {
		return nil, err
	}
	return request(id, "PATCH", "/session/"+t.Main, map[string]any{"permission": rules})
}

// canAsk refuses a mode in which this process would not ask for what its subagents do.
func (t *translator) canAsk(p adapters.Permission) error {
	started := t.Opening.Asks
	if t.Opening.Request == "" {
		started = t.launch.Permission.Asks()
	}
	if p.Asks() && !started {
		return fmt.Errorf("opencode: a process that was started to allow everything asks nothing in subagents: %w", adapters.ErrUnsupported)
	}
	return nil
}
