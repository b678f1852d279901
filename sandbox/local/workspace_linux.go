package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sojourn-run/sojourn/sandbox"
)

// resolveWorkspace replaces the Spec's workspace by its real path, which no
// symbolic link can turn elsewhere later, and refuses one that would show the
// agent what the provider hides: a workspace is always visible to the agent.
func (p *Provider) resolveWorkspace(spec *sandbox.Spec) error {
	if spec.Shares != "" {
		return p.shareWorkspace(spec)
	}
	if spec.Workspace == "" {
		return nil
	}
	refuse := func(reason, want string) error {
		return &sandbox.WorkspaceError{Dir: spec.Workspace, Reason: reason, Want: want}
	}
	if !filepath.IsAbs(spec.Workspace) {
		return refuse("is not an absolute path", "an absolute path")
	}
	real, err := filepath.EvalSymlinks(spec.Workspace)
	if err != nil {
		return refuse(fmt.Sprintf("can't be used: %v", err), "a folder that exists")
	}
	info, err := os.Stat(real)
	if err != nil || !info.IsDir() {
		return refuse("is not a folder", "a folder that exists")
	}
	for _, h := range p.hiddenFolders() {
		if reason := h.conflict(real); reason != "" {
			return refuse(reason, "a folder that neither contains nor is inside what is hidden from agents")
		}
	}
	spec.Workspace = real
	return nil
}

// shareWorkspace sets the Spec's workspace to that of the sandbox that it shares.
func (p *Provider) shareWorkspace(spec *sandbox.Spec) error {
	if err := sandbox.CheckID(spec.Shares); err != nil {
		return fmt.Errorf("field \"shares\": %w", err)
	}
	shared, err := p.open(spec.Shares)
	if err != nil {
		return fmt.Errorf("field \"shares\": %w", err)
	}
	if shared.damage != nil {
		return fmt.Errorf("field \"shares\": sandbox %s: %w", spec.Shares, shared.damage)
	}
	spec.Workspace = shared.paths().Workspace
	return nil
}

// hiddenFolder is a folder that no agent of this host may see.
type hiddenFolder struct {
	// path is real: it has no symbolic links.
	path string
	what string
	// projects: folders below it may be workspaces, unless their path begins
	// with a dot folder, where programs keep their settings and keys.
	projects bool
}

// hiddenFolders returns those that are hidden from every sandbox and currently
// exist.
func (p *Provider) hiddenFolders() []hiddenFolder {
	home := realPath(p.hiddenHome())
	all := []hiddenFolder{{path: p.dataDir, what: "the worker's data folder"}}
	for _, dir := range p.options.Hide {
		real := realPath(dir)
		all = append(all, hiddenFolder{path: real, what: "a folder that the worker hides from agents", projects: real == home})
	}
	all = append(all, hiddenFolder{path: home, what: "the home of the worker's user", projects: true})
	existing := all[:0]
	for _, h := range all {
		// The root can't be hidden.
		if h.path != "" && h.path != "/" {
			existing = append(existing, h)
		}
	}
	return existing
}

// conflict returns why dir can't be a workspace because of the hidden folder;
// empty if it can.
func (h hiddenFolder) conflict(dir string) string {
	if within(dir, h.path) {
		return fmt.Sprintf("is or contains %s (%s)", h.what, h.path)
	}
	if !within(h.path, dir) {
		return ""
	}
	below := strings.TrimPrefix(dir, h.path+"/")
	if h.projects && !strings.HasPrefix(below, ".") {
		return ""
	}
	return fmt.Sprintf("is inside %s (%s)", h.what, h.path)
}

// within reports whether path is dir or below it; both are clean.
func within(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// realPath resolves symbolic links; empty if the path does not exist.
func realPath(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || path == "" {
		return ""
	}
	return real
}

// hiddenHome returns the home to hide from agents; empty for none.
func (p *Provider) hiddenHome() string {
	home := p.options.UserHome
	if !filepath.IsAbs(home) || filepath.Clean(home) == "/" {
		return ""
	}
	return home
}
