package codex

import (
	"os"
	"path/filepath"

	"github.com/sojourn-run/sojourn/adapters"
)

// Locate finds the program: the path in SOJOURN_CODEX, else codex in PATH. npm
// puts a script there that starts the native program as its child. The native one
// is used instead: a signal to the script leaves the program running, which
// continues with the turn and holds the session's thread ("already has an active
// writer").
func (*Adapter) Locate(getenv func(string) string) (string, error) {
	found, err := adapters.FindProgram(getenv, ProgramVariable, Name, "install Codex (npm install -g @openai/codex)")
	if err != nil {
		return "", err
	}
	if native := nativeBeside(found); native != "" {
		return native, nil
	}
	return found, nil
}

// nativeBeside returns the native program of npm's script, which is in
// <package>/bin: in the package itself, or in the package of the platform, below
// it or beside it. "" if program is no such script.
func nativeBeside(program string) string {
	script, err := filepath.EvalSymlinks(program)
	if err != nil || filepath.Base(script) != "codex.js" {
		return ""
	}
	pkg := filepath.Dir(filepath.Dir(script))
	for _, pattern := range []string{
		filepath.Join(pkg, "vendor", "*"),
		filepath.Join(pkg, "node_modules", "@openai", "codex-*", "vendor", "*"),
		filepath.Join(filepath.Dir(pkg), "codex-*", "vendor", "*"),
	} {
		for _, program := range []string{filepath.Join("bin", Name), filepath.Join(Name, Name)} {
			if native := firstProgram(filepath.Join(pattern, program)); native != "" {
				return native
			}
		}
	}
	return ""
}

// firstProgram returns the first executable file that the pattern matches.
func firstProgram(pattern string) string {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return ""
	}
	for _, path := range found {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}
