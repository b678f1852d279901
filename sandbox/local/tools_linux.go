package local

import (
	"os"
	"path/filepath"
	"strings"
)

// toolFolders returns the folders of a hidden home that programs in PATH need:
// the PATH folders themselves, and the whole of a language's installation (a
// folder whose bin has the interpreter), but no folder that also has the user's
// settings, such as ~/.local or ~/.cargo.
func toolFolders(home, path string) []string {
	var keep []string
	for _, dir := range filepath.SplitList(path) {
		if !strings.HasPrefix(dir, strings.TrimSuffix(home, "/")+"/") {
			continue
		}
		keep = append(keep, dir)
		if prefix := filepath.Dir(dir); isInstallation(prefix) && filepath.Dir(prefix) != home {
			keep = append(keep, prefix)
		}
	}
	return keep
}

func isInstallation(prefix string) bool {
	for _, sign := range []string{"bin/node", "bin/python3", "bin/bun", "bin/deno", "bin/go", "pyvenv.cfg"} {
		if _, err := os.Stat(filepath.Join(prefix, sign)); err == nil {
			return true
		}
	}
	return false
}
