package acp

import (
	"fmt"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/profilefiles"
)

// ProfileFiles returns the workspace's files. Fields that would need a place in
// the program's own settings are refused: a profile that is silently not followed
// is worse than none.
func (*Adapter) ProfileFiles(p adapters.Profile, l adapters.Launch) ([]adapters.File, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("acp: %w", err)
	}
	if fields := homeless(p, l); len(fields) > 0 {
		return nil, fmt.Errorf("acp: profile: %s: %w, put it into files of the workspace where the program finds it",
			strings.Join(fields, ", "), adapters.ErrUnsupported)
	}
	w := profilefiles.New("")
	if globs := filesNamed(l.Program); globs != "" {
		w.Config(globsFile, globs+"\n")
	}
	w.Workspace(p.Workspace)
	return w.Files(), nil
}

// homeless returns the fields of a profile, and of a session, for which no place is known.
func homeless(p adapters.Profile, l adapters.Launch) []string {
	var fields []string
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"instructions", p.Instructions != ""}, {"rules", len(p.Rules) > 0}, {"skills", len(p.Skills) > 0},
		{"subagents", len(p.Subagents) > 0}, {"commands", len(p.Commands) > 0}, {"bundledMcp", len(p.BundledMCP) > 0},
		{"systemPrompt", l.SystemPrompt != ""},
	} {
		if f.has {
			fields = append(fields, f.name)
		}
	}
	return fields
}

// filesNamed returns the value of SOJOURN_ACP_FILES in a command line that Locate
// returned.
func filesNamed(program string) string {
	line, err := readCommandLine(program)
	if err != nil {
		return ""
	}
	for _, assignment := range line.env {
		if globs, is := strings.CutPrefix(assignment, FilesVariable+"="); is {
			return globs
		}
	}
	return ""
}
