package sandbox

import (
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// inherited are the variables of the worker that any command may see.
var inherited = []string{"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// housePrefixes are the prefixes of the variables by which a worker reaches
// Temporal, the stream and the archive, and of its own settings.
var housePrefixes = []string{"TEMPORAL_", "NATS_", "AWS_", "SOJOURN_"}

// CheckVariable refuses the name of a variable that grants access to Sojourn's
// services: no agent gets it from its worker's environment, whatever its profile
// requests.
func CheckVariable(name string) error {
	for _, prefix := range housePrefixes {
		if strings.HasPrefix(name, prefix) {
			return fmt.Errorf("variable %s is never given to agents (no %s* variable is); want one of another name", name, prefix)
		}
	}
	return nil
}

// Environment returns the environment of a sandbox from an allow-list: the few
// variables that every command needs, and those that pass names (the setting
// SOJOURN_PASS_ENV), each only if getenv has it. Nothing else is inherited. A
// name in pass that grants access to Temporal, the stream or the archive is
// refused.
func Environment(getenv func(string) string, pass []string) ([]string, error) {
	var env []string
	for _, name := range slices.Concat(inherited, pass) {
		name = strings.TrimSpace(name)
		if err := checkPassed(name); err != nil {
			return nil, err
		}
		if value := getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return MergeEnv(env), nil
}

func checkPassed(name string) error {
	if strings.ContainsAny(name, "=\x00") {
		return fmt.Errorf("SOJOURN_PASS_ENV: %q is not the name of a variable", name)
	}
	if err := CheckVariable(name); err != nil {
		return fmt.Errorf("SOJOURN_PASS_ENV: %w", err)
	}
	return nil
}

// MergeEnv joins environments of the form NAME=value; a later one takes
// precedence. The order is that of each name's first mention.
func MergeEnv(envs ...[]string) []string {
	at := map[string]int{}
	var out []string
	for _, kv := range slices.Concat(envs...) {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			continue
		}
		if i, seen := at[name]; seen {
			out[i] = kv
			continue
		}
		at[name] = len(out)
		out = append(out, kv)
	}
	return out
}

// EnvValue returns the value of a variable in an environment of the form
// NAME=value; "" if it has none.
func EnvValue(env []string, name string) string {
	for _, kv := range env {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			return v
		}
	}
	return ""
}

// LookPath returns the path of a program in the folders of a PATH. Relative
// folders are ignored. The error is [fs.ErrNotExist].
func LookPath(name, path string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(dir) {
			return found, nil
		}
	}
	return "", fs.ErrNotExist
}
