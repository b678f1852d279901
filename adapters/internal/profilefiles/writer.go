package profilefiles

import (
	"maps"
	"path"
	"slices"

	"github.com/sojourn-run/sojourn/adapters"
)

// Writer collects files. Not safe for concurrent use.
type Writer struct {
	dir   string
	files []adapters.File
}

// New returns a writer for a configuration folder, which is relative to the home.
func New(dir string) *Writer { return &Writer{dir: dir} }

// Config adds a file below the configuration folder. Its mode keeps secrets in
// MCP settings from other users of the machine.
func (w *Writer) Config(name, text string) {
	w.files = append(w.files, adapters.File{
		Base: adapters.InHome, Path: path.Join(w.dir, name), Mode: 0o600, Data: []byte(text)})
}

// Markdown adds a file for each text, by name without extension.
func (w *Writer) Markdown(dir string, texts map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		w.Config(path.Join(dir, name+".md"), texts[name])
	}
}

// Skills adds the files of skills, each in a folder with its name.
func (w *Writer) Skills(skills map[string]map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(skills)) {
		for _, file := range slices.Sorted(maps.Keys(skills[name])) {
			w.Config(path.Join("skills", name, file), skills[name][file])
		}
	}
}

// Bundles adds the files of a profile's bundled MCP servers.
func (w *Writer) Bundles(servers map[string]adapters.BundledMCP) {
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		for _, file := range slices.Sorted(maps.Keys(servers[name].Files)) {
			w.files = append(w.files, adapters.File{
				Base: adapters.InHome, Path: path.Join(adapters.BundledDir(name), file), Mode: 0o700,
				Data: []byte(servers[name].Files[file])})
		}
	}
}

// Workspace adds files of the workspace.
func (w *Writer) Workspace(files map[string]string) {
	for _, file := range slices.Sorted(maps.Keys(files)) {
		w.files = append(w.files, adapters.File{
			Base: adapters.InWorkspace, Path: file, Mode: 0o644, Data: []byte(files[file])})
	}
}

// Files returns what was added, by base and path.
func (w *Writer) Files() []adapters.File {
	slices.SortFunc(w.files, func(a, b adapters.File) int {
		return slices.Compare([]string{string(a.Base), a.Path}, []string{string(b.Base), b.Path})
	})
	return w.files
}

// Servers returns the profile's MCP servers; what the launch has, with its secrets filled in,
// takes precedence.
func Servers(p adapters.Profile, l adapters.Launch) map[string]adapters.MCPServer {
	all := p.Servers(l.Home)
	maps.Copy(all, l.MCPServers)
	return all
}
