package adapters

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// Validate checks the names that become paths in a sandbox, and the required
// fields of MCP servers. The error names the field.
func (p Profile) Validate() error {
	if p.Permission != "" && !p.Permission.Valid() {
		return fmt.Errorf("profile: field permission is %q, want allow, ask or deny", p.Permission)
	}
	if err := cmp.Or(p.Permissions.Validate(), p.PermissionDeadline.Validate(), p.Park.Validate(), p.UnknownEffects.Validate()); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	for _, field := range []struct {
		name  string
		files map[string]string
	}{{"rules", p.Rules}, {"subagents", p.Subagents}, {"commands", p.Commands}, {"workspace", p.Workspace}} {
		if err := validPaths(field.name, field.files); err != nil {
			return err
		}
	}
	if err := p.validateSkills(); err != nil {
		return err
	}
	return p.validateServers()
}

func (p Profile) validateSkills() error {
	for _, name := range slices.Sorted(maps.Keys(p.Skills)) {
		field := fmt.Sprintf("skills[%q]", name)
		if err := validName(field, name); err != nil {
			return err
		}
		if _, ok := p.Skills[name]["SKILL.md"]; !ok {
			return fmt.Errorf("profile: field %s: file SKILL.md is missing", field)
		}
		if err := validPaths(field, p.Skills[name]); err != nil {
			return err
		}
	}
	return nil
}

func (p Profile) validateServers() error {
	for _, name := range slices.Sorted(maps.Keys(p.MCPServers)) {
		s := p.MCPServers[name]
		if (s.Command == "") == (s.URL == "") {
			return fmt.Errorf("profile: field mcpServers[%q]: want either command or url", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.BundledMCP)) {
		field := fmt.Sprintf("bundledMcp[%q]", name)
		if err := validName(field, name); err != nil {
			return err
		}
		if _, twice := p.MCPServers[name]; twice {
			return fmt.Errorf("profile: field %s: mcpServers has the same name", field)
		}
		if len(p.BundledMCP[name].Start) == 0 {
			return fmt.Errorf("profile: field %s.start is empty", field)
		}
		if err := validPaths(field+".files", p.BundledMCP[name].Files); err != nil {
			return err
		}
	}
	return nil
}

func validPaths(field string, files map[string]string) error {
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if !safePath(path) {
			return fmt.Errorf("profile: field %s: path %q must be relative, with slashes, and have no . or .. in it", field, path)
		}
	}
	return nil
}

func validName(field, name string) error {
	if !safePath(name) || strings.Contains(name, "/") {
		return fmt.Errorf("profile: field %s: name %q must be one path element", field, name)
	}
	return nil
}

// safePath accepts only paths that mean the same file everywhere.
func safePath(path string) bool {
	return path != "." && fs.ValidPath(path) && !strings.ContainsAny(path, "\\\x00:")
}
