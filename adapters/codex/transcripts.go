package codex

import (
	"bufio"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

const (
	rolloutPrefix = "rollout-"
	rolloutSuffix = ".jsonl"
	sessionsDir   = configDir + "/sessions"
	// idLength is that of the UUID at the end of a rollout's name.
	idLength = 36
)

// rollout is a rollout file and the content of its first line.
type rollout struct {
	path string
	sessionMeta
}

// threadID returns the id in a rollout's file name.
func threadID(file string) string {
	name, ok := strings.CutSuffix(path.Base(file), rolloutSuffix)
	if !ok || !strings.HasPrefix(name, rolloutPrefix) || len(name) < len(rolloutPrefix)+idLength {
		return ""
	}
	return name[len(name)-idLength:]
}

// readMeta reads a rollout's first line; the rest may be huge.
func readMeta(home adapters.Home, file string) (rollout, error) {
	r := rollout{path: file, sessionMeta: sessionMeta{ID: threadID(file)}}
	in, err := home.Open(file)
	if err != nil {
		return r, fmt.Errorf("codex: open rollout %s: %w", file, err)
	}
	defer in.Close()
	first, err := bufio.NewReader(in).ReadBytes('\n')
	if len(first) == 0 && err != nil {
		return r, nil // empty: there is only its name
	}
	var l rolloutLine
	var meta sessionMeta
	if decodeObject(first, &l) == nil && l.Type == lineMeta && decodeObject(l.Payload, &meta) == nil {
		meta.ID = cmp.Or(meta.ID, r.ID)
		r.sessionMeta = meta
	}
	return r, nil
}

// rollouts reads the rollouts of a folder tree or of one folder, in order.
func rollouts(home adapters.Home, pattern string) ([]rollout, error) {
	files, err := home.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("codex: find rollouts: %w", err)
	}
	var found []rollout
	for _, file := range files {
		if threadID(file) == "" {
			continue
		}
		r, err := readMeta(home, file)
		if err != nil {
			return nil, err
		}
		found = append(found, r)
	}
	return found, nil
}

// Transcripts returns the rollout of the launch's native session and those of its
// subagents. Without a native id in the launch it returns those of all sessions.
func (*Adapter) Transcripts(home adapters.Home, l adapters.Launch) ([]adapters.Transcript, error) {
	all, err := rollouts(home, path.Join(sessionsDir, "*", "*", "*", rolloutPrefix+"*"+rolloutSuffix))
	if err != nil {
		return nil, err
	}
	var found []adapters.Transcript
	for _, r := range all {
		if r.Parent == "" && (l.NativeID == "" || r.ID == l.NativeID) {
			found = append(found, withSubagents(r, all)...)
		}
	}
	return found, nil
}

// withSubagents returns a rollout as the main transcript, and its subagents', nested
// ones included, in the order of their names, which is that of their starts.
func withSubagents(main rollout, all []rollout) []adapters.Transcript {
	found := []adapters.Transcript{{ID: event.Main, Path: main.path, Kind: adapters.Append}}
	kin := map[string]bool{main.ID: true}
	for grown := true; grown; {
		grown = false
		for _, r := range all {
			if kin[r.Parent] && !kin[r.ID] {
				kin[r.ID], grown = true, true
				found = append(found, adapters.Transcript{ID: r.ID, Path: r.path, Kind: adapters.Append})
			}
		}
	}
	slices.SortFunc(found[1:], func(a, b adapters.Transcript) int { return strings.Compare(a.Path, b.Path) })
	return found
}

// Identify returns what a rollout is by its first line, with its subagents' if
// they are in the same folder.
func (*Adapter) Identify(home adapters.Home, file string) ([]adapters.Transcript, error) {
	r, err := readMeta(home, file)
	if err != nil {
		return nil, err
	}
	if r.Parent != "" {
		return []adapters.Transcript{{ID: r.ID, Path: file, Kind: adapters.Append}}, nil
	}
	all, err := rollouts(home, path.Join(path.Dir(file), rolloutPrefix+"*"+rolloutSuffix))
	if err != nil {
		return nil, err
	}
	return withSubagents(r, all), nil
}

// Place returns the same path: the program finds a rollout under any date.
func (*Adapter) Place(t adapters.Transcript, _ adapters.Launch) string { return t.Path }
