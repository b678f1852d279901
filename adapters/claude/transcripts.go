package claude

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

const (
	agentPrefix = "agent-"
	agentSuffix = ".jsonl"
	metaSuffix  = ".meta.json"
	// metaID is the suffix of the id of a subagent's companion file.
	metaID = ".meta"
)

// Transcripts returns the native session's files in the home: its own and those
// of its subagents. Without a native id in the launch it returns those of all
// sessions.
func (*Adapter) Transcripts(home adapters.Home, l adapters.Launch) ([]adapters.Transcript, error) {
	mains, err := mainFiles(home, l)
	if err != nil {
		return nil, err
	}
	var found []adapters.Transcript
	for _, main := range mains {
		files, err := companions(home, main)
		if err != nil {
			return nil, err
		}
		found = append(found, files...)
	}
	return found, nil
}

// mainFiles returns the sessions' own transcripts.
func mainFiles(home adapters.Home, l adapters.Launch) ([]string, error) {
	name := "*"
	if l.NativeID != "" {
		name = l.NativeID
	}
	mains, err := home.Glob(path.Join(configDir, "projects", "*", name+agentSuffix))
	if err != nil {
		return nil, fmt.Errorf("claude: find transcripts: %w", err)
	}
	return preferred(mains, l), nil
}

// Prepare continues with the native session if its transcript is in the home. The
// program itself repairs what a kill has left, except for its note of where it
// was.
func (a *Adapter) Prepare(home adapters.Home, l adapters.Launch) (adapters.Preparation, error) {
	found, err := a.Transcripts(home, l)
	if err != nil {
		return adapters.Preparation{}, err
	}
	rules := workspaceRules(l)
	if len(found) == 0 {
		return adapters.Preparation{Write: []adapters.Repair{rules}}, nil
	}
	write, err := repair(home, found[0].Path)
	if err != nil {
		return adapters.Preparation{}, err
	}
	return adapters.Preparation{NativeID: l.NativeID, Write: append(write, rules)}, nil
}

// preferred returns the one file that the agent itself would resume, if a home
// has the session under several working folders.
func preferred(mains []string, l adapters.Launch) []string {
	mains = slices.DeleteFunc(mains, func(p string) bool { return strings.HasPrefix(path.Base(p), agentPrefix) })
	if l.NativeID == "" || len(mains) < 2 {
		return mains
	}
	for _, m := range mains {
		if path.Base(path.Dir(m)) == slug(l.Workspace) {
			return []string{m}
		}
	}
	return mains[:1]
}

// slug returns the agent's folder name for a working folder.
func slug(dir string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, dir)
}

// Place puts a transcript into the folder of the launch's workspace, the only one
// in which the agent looks for a session to resume.
func (*Adapter) Place(t adapters.Transcript, l adapters.Launch) string {
	projects := path.Join(configDir, "projects") + "/"
	in, ours := strings.CutPrefix(t.Path, projects)
	_, rest, filed := strings.Cut(in, "/")
	if !ours || !filed {
		return t.Path
	}
	return projects + slug(l.Workspace) + "/" + rest
}

// companions returns a session's transcript and those of its subagents beside it.
func companions(home adapters.Home, main string) ([]adapters.Transcript, error) {
	found := []adapters.Transcript{{ID: event.Main, Path: main, Kind: adapters.Append}}
	dir := path.Join(strings.TrimSuffix(main, agentSuffix), "subagents")
	paths, err := home.Glob(path.Join(dir, agentPrefix+"*"))
	if err != nil {
		return nil, fmt.Errorf("claude: find subagents: %w", err)
	}
	for _, p := range paths {
		if t, ok := subagentFile(p); ok {
			found = append(found, t)
		}
	}
	older, err := beside(home, main)
	return append(found, older...), err
}

// subagentFile names a subagent's transcript or companion by its file name.
func subagentFile(p string) (adapters.Transcript, bool) {
	name, isAgent := strings.CutPrefix(path.Base(p), agentPrefix)
	if !isAgent {
		return adapters.Transcript{}, false
	}
	if id, ok := strings.CutSuffix(name, metaSuffix); ok {
		return adapters.Transcript{ID: id + metaID, Path: p, Kind: adapters.Snapshot}, true
	}
	if id, ok := strings.CutSuffix(name, agentSuffix); ok {
		return adapters.Transcript{ID: id, Path: p, Kind: adapters.Append}, true
	}
	return adapters.Transcript{}, false
}

// Identify returns what a file is by its name alone, and its companions: a
// session has its subagents, a subagent its companion file.
func (*Adapter) Identify(home adapters.Home, file string) ([]adapters.Transcript, error) {
	t, isAgent := subagentFile(file)
	if !isAgent {
		return companions(home, file)
	}
	found := []adapters.Transcript{t}
	if t.Kind == adapters.Append {
		metas, err := home.Glob(strings.TrimSuffix(file, agentSuffix) + metaSuffix)
		if err != nil {
			return nil, fmt.Errorf("claude: find companion of %s: %w", file, err)
		}
		for _, m := range metas {
			meta, _ := subagentFile(m)
			found = append(found, meta)
		}
	}
	return found, nil
}
