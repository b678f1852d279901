package codex

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/profilefiles"
)

// ProfileFiles returns the files of a profile, all in the session's own
// configuration folder so that the workspace does not change; only the profile's
// workspace files go there.
//
// The program has one file of instructions, so the rules follow in it. Its
// commands exist only in its terminal interface, which is not used here: they
// become skills, which the model finds by their names.
func (*Adapter) ProfileFiles(p adapters.Profile, l adapters.Launch) ([]adapters.File, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("codex: %w", err)
	}
	w := profilefiles.New(configDir)
	if text := instructions(p); text != "" {
		w.Config("AGENTS.md", text)
	}
	w.Skills(p.Skills)
	writeCommands(w, p)
	writeRoles(w, p.Subagents)
	w.Bundles(p.BundledMCP)
	w.Workspace(p.Workspace)
	w.Config("config.toml", config(p, l))
	return w.Files(), nil
}

// instructions returns the profile's own and its rules.
func instructions(p adapters.Profile) string {
	var parts []string
	if p.Instructions != "" {
		parts = append(parts, strings.TrimRight(p.Instructions, "\n"))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Rules)) {
		parts = append(parts, "# "+name+"\n\n"+strings.TrimRight(p.Rules[name], "\n"))
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, "\n\n") + "\n"
}

// writeCommands writes each command as a skill with its name, unless there is
// one.
func writeCommands(w *profilefiles.Writer, p adapters.Profile) {
	for _, name := range slices.Sorted(maps.Keys(p.Commands)) {
		if _, taken := p.Skills[name]; taken {
			continue
		}
		front, body := frontMatter(p.Commands[name])
		description := first(front["description"], "What to do when the user writes /"+name+".")
		w.Config(path.Join("skills", name, "SKILL.md"),
			"---\nname: "+basicString(name)+"\ndescription: "+basicString(description)+"\n---\n\n"+body)
	}
}

// writeRoles writes each subagent as a role with which the model can start
// agents.
func writeRoles(w *profilefiles.Writer, subagents map[string]string) {
	for _, file := range slices.Sorted(maps.Keys(subagents)) {
		front, body := frontMatter(subagents[file])
		name := first(front["name"], file)
		var t toml
		t.set("name", name)
		t.set("description", first(front["description"], name))
		t.set("developer_instructions", body)
		w.Config(path.Join("agents", file+".toml"), t.String())
	}
}

// frontMatter splits a Markdown file into the plain values of its head and its
// body.
func frontMatter(text string) (head map[string]string, body string) {
	head = map[string]string{}
	rest, has := strings.CutPrefix(text, "---\n")
	if !has {
		return head, text
	}
	front, body, ends := strings.Cut(rest, "\n---\n")
	if !ends {
		return head, text
	}
	for line := range strings.Lines(front) {
		key, value, ok := strings.Cut(line, ":")
		if ok && key == strings.TrimSpace(key) {
			head[key] = unquoted(strings.TrimSpace(value))
		}
	}
	return head, strings.TrimLeft(body, "\n")
}

func unquoted(value string) string {
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		return value[1 : n-1]
	}
	return value
}
