package sandbox

import (
	"fmt"
	"slices"
	"strings"
)

// inherited are the variables of the worker that any command may see.
var inherited = []string{"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// housekeys are prefixes of variables that open the house: they are never
// passed on from the worker's own environment, whoever asks.
var housekeys = []string{"TEMPORAL_", "NATS_", "AWS_", "SOJOURN_"}

// Environment builds the environment of a sandbox from an allow-list: the few
// variables that every command needs, and those that pass names (the setting
// SOJOURN_PASS_ENV), each only if getenv has it. Nothing else is inherited. A
// name in pass that would open Temporal, the stream or the archive is refused.
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
	for _, prefix := range housekeys {
		if strings.HasPrefix(name, prefix) {
			return fmt.Errorf("SOJOURN_PASS_ENV: %s may not be passed to agents (no %s* variable may)", name, prefix)
		}
	}
	return nil
}

// MergeEnv joins environments of the form NAME=value; a later one wins. The
// order is that of each name's first mention.
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
