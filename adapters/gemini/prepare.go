package gemini

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
)

// idleMinute is the minute in the name of a chat file that is continued. The
// agent names a new recording by the minute and its session. When it loads a
// session it first starts a new recording of it, and in the minute of the
// session's start that is the very file which it then wants to read: it has
// emptied the conversation. No process runs in this minute.
const idleMinute = "2000-01-01T00-"

// idleName returns the name of the n-th main file of an idle session.
func idleName(n int, shortID string) string {
	return fmt.Sprintf("%s%s%02d-%s%s", chatPrefix, idleMinute, n%60, shortID, chatSuffix)
}

// Prepare continues with the newest of the conversation's native sessions that the
// agent can load, in the folder where the agent looks for it and under a name that
// it does not write to.
func (*Adapter) Prepare(home adapters.Home, l adapters.Launch) (adapters.Preparation, error) {
	all, err := surveys(home, whole)
	if err != nil {
		return adapters.Preparation{}, err
	}
	isOurs, err := ours(home, all)
	if err != nil {
		return adapters.Preparation{}, fmt.Errorf("gemini: find the conversation's sessions: %w", err)
	}
	own := slices.DeleteFunc(slices.Clone(all), func(c chat) bool { return !c.prompts || !isOurs[c.session] })
	found, loads, err := continued(home, l, own)
	if err != nil {
		return adapters.Preparation{}, err
	}
	file, isNew, err := note(home, all, isOurs, loads)
	if isNew {
		found.Write = append(found.Write, file)
	}
	return found, err
}

// continued returns how the conversation's newest session that can be loaded is
// continued, and what the agent will load then; nil for none.
func continued(home adapters.Home, l adapters.Launch, own []chat) (found adapters.Preparation, loads *place, err error) {
	for n, c := range slices.Backward(own) {
		c.unfinished(l.Unfinished)
		if c.resumable && c.session != "" {
			found, loads, err = relocate(home, l, c, n)
			found.Prompts = promptsOf(home, own, c.session)
			return found, loads, err
		}
	}
	return found, nil, nil
}

// promptsOf returns how many prompts of a native session Parse finds in its files.
func promptsOf(home adapters.Home, all []chat, session string) int {
	p := newParser(emit.To(func(event.Event) {}))
	for _, c := range all {
		if c.session == session {
			p.main(sourceOf(home, c.path))
		}
	}
	return p.prompts[session]
}

func sourceOf(home adapters.Home, file string) adapters.Source {
	return adapters.Source{
		Transcript: adapters.Transcript{Path: file}, Open: func() (io.ReadCloser, error) { return home.Open(file) },
	}
}

// relocate moves a chat file to where it can be loaded.
func relocate(home adapters.Home, l adapters.Launch, c chat, n int) (found adapters.Preparation, loads *place, err error) {
	found.NativeID = c.session
	slug, err := folder(home, l.Workspace)
	if err != nil {
		return found, nil, err
	}
	want := path.Join(configDir, "tmp", slug, "chats", idleName(n, shortID(c.session)))
	if kindOf(c.path) == adapters.Snapshot {
		return found, &place{Path: c.path + "l"}, nil // the agent itself makes a new file of it
	}
	loads = &place{want, c.size}
	if c.path == want && !c.dangling && !c.emptied && c.withdrawn == nil {
		return found, loads, nil
	}
	added, note, err := repair(home, c)
	if err != nil {
		return found, nil, err
	}
	found.Note = note
	loads.Size += int64(len(added))
	if c.path != want {
		found.Move = []adapters.Move{{From: c.path, To: want}}
	}
	if len(added) > 0 {
		found.Write = []adapters.Repair{{Path: want, From: want, End: c.size, Add: added}}
	}
	return found, loads, nil
}

// maxRefill is the largest file that is refilled, in bytes: it is read whole. The
// agent empties a session only in the minute of its start.
const maxRefill = 16 << 20

// repair returns what must be added to a file so that it can be continued.
func repair(home adapters.Home, c chat) (added []byte, note string, err error) {
	switch {
	case c.emptied && c.size > maxRefill:
		note = fmt.Sprintf("the agent had emptied its native session, whose %d bytes are too many to fill it again: it remembers nothing", c.size)
	case c.emptied:
		// The restored messages must be in one line, so the whole file is read.
		data, err := readFile(home, c.path)
		if err != nil {
			return nil, "", err
		}
		added = append(append(added, refill(data)...), '\n')
		note = "the agent had emptied its native session, which is filled again from what it had written before"
	}
	if c.withdrawn != nil {
		again, err := readd(home, c)
		if err != nil {
			return nil, "", err
		}
		added = append(append(added, again...), '\n')
		if size := c.withdrawn.to - c.withdrawn.from; size > maxRefill {
			note = fmt.Sprintf("the agent had taken back the turn that it continues, whose %d bytes are too many to add them again: it remembers the beginning", size)
		}
	}
	if c.dangling {
		added = append(append(added, fill(c)...), '\n')
	}
	return added, note, nil
}

// readd returns a line with what the agent has taken back of the turn that it is to continue,
// from its prompt on. Of more than maxRefill bytes it is the beginning. The agent loads such
// a line as it loads a header of older versions; Parse knows what it has.
func readd(home adapters.Home, c chat) (json.RawMessage, error) {
	in, err := home.OpenAt(c.path, c.withdrawn.from)
	if err != nil {
		return nil, fmt.Errorf("gemini: open %s: %w", c.path, err)
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, min(c.withdrawn.to-c.withdrawn.from, maxRefill)))
	if err != nil {
		return nil, fmt.Errorf("gemini: read %s: %w", c.path, err)
	}
	var m remembered
	for line := range bytes.Lines(data) {
		if !isPatch(line) {
			m.put(bytes.TrimSpace(line))
		}
	}
	return nativejson.Encode(map[string]any{"sessionId": c.session, "projectHash": c.project, "messages": m.all()}), nil
}

// refill returns a patch with the messages that the file had before the agent
// emptied it.
func refill(data []byte) json.RawMessage {
	c, m := chat{}, remembered{}
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		c.emptied = false
		c.line(line)
		switch all := patched(line); {
		case !isPatch(line):
			m.put(line)
		case all != nil && !c.emptied:
			m = remembered{}
			for _, raw := range all {
				m.put(raw)
			}
		}
	}
	return nativejson.Encode(map[string]any{"$set": map[string]any{"messages": m.all()}})
}

// remembered are the messages that the agent has of a file, each in its last version.
type remembered struct {
	order    []string
	messages map[string]json.RawMessage
}

// put adds a message, or those of a header.
func (m *remembered) put(raw json.RawMessage) {
	r, err := decodeRecord(raw)
	if err != nil {
		return
	}
	for _, raw := range r.Messages {
		m.put(raw)
	}
	if r.ID == "" {
		return
	}
	if m.messages == nil {
		m.messages = map[string]json.RawMessage{}
	}
	if m.messages[r.ID] == nil {
		m.order = append(m.order, r.ID)
	}
	m.messages[r.ID] = raw
}

func (m *remembered) all() []json.RawMessage {
	all := make([]json.RawMessage, len(m.order))
	for i, id := range m.order {
		all[i] = m.messages[id]
	}
	return all
}

// fill returns the line that closes a turn of which nothing was stored.
func fill(c chat) json.RawMessage {
	return nativejson.Encode(map[string]any{
		"id": fillerPrefix + c.last, "timestamp": c.stamp, "type": "gemini", "content": filler, "thoughts": []any{},
	})
}

// shortID returns the part of a session's id that is in its file's name.
func shortID(session string) string { return session[:min(8, len(session))] }

func readFile(home adapters.Home, file string) ([]byte, error) {
	in, err := home.Open(file)
	if err != nil {
		return nil, fmt.Errorf("gemini: open %s: %w", file, err)
	}
	defer in.Close()
	data, err := io.ReadAll(in)
	if err != nil {
		return nil, fmt.Errorf("gemini: read %s: %w", file, err)
	}
	return data, nil
}

// folder returns the agent's name for a workspace: that in its registry, else the
// folder that is marked as the workspace's, else the one that it would choose.
func folder(home adapters.Home, workspace string) (string, error) {
	if slug := registered(home, workspace); slug != "" && owner(home, slug) == workspace {
		return slug, nil
	}
	markers, err := home.Glob(path.Join(configDir, "tmp", "*", ".project_root"))
	if err != nil {
		return "", fmt.Errorf("gemini: find workspaces: %w", err)
	}
	for _, m := range markers {
		if slug := path.Base(path.Dir(m)); owner(home, slug) == workspace {
			return slug, nil
		}
	}
	base := slug(workspace)
	for n := 0; ; n++ {
		name := base
		if n > 0 {
			name = base + "-" + strconv.Itoa(n)
		}
		if who := owner(home, name); who == "" || who == workspace {
			return name, nil
		}
	}
}

// registered returns the name in the agent's registry; "" for none.
func registered(home adapters.Home, workspace string) string {
	data, err := readFile(home, path.Join(configDir, "projects.json"))
	if err != nil {
		return "" // no registry, no name
	}
	var r struct {
		Projects map[string]string `json:"projects"`
	}
	if json.Unmarshal(data, &r) != nil {
		return "" // the agent starts a new one then
	}
	return r.Projects[workspace]
}

// owner returns the workspace that a folder is marked with; "" for none.
func owner(home adapters.Home, slug string) string {
	data, err := readFile(home, path.Join(configDir, "tmp", slug, ".project_root"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

var noSlug = regexp.MustCompile(`[^a-z0-9]+`)

// slug returns the folder name that the agent derives from a workspace's path.
func slug(workspace string) string {
	name := strings.Trim(noSlug.ReplaceAllString(strings.ToLower(path.Base(workspace)), "-"), "-")
	if name == "" {
		return "project"
	}
	return name
}

// Place puts a transcript into the folder of the launch's workspace, the only one
// in which the agent looks for a session to load, and a main one under a name
// that it does not write to.
func (*Adapter) Place(t adapters.Transcript, l adapters.Launch) string {
	tmp := path.Join(configDir, "tmp") + "/"
	in, ours := strings.CutPrefix(t.Path, tmp)
	_, within, filed := strings.Cut(in, "/")
	if !ours || !filed {
		return t.Path
	}
	dir := tmp + slug(l.Workspace) + "/"
	if !isMain(t.ID) || kindOf(t.Path) == adapters.Snapshot {
		return dir + within
	}
	name := strings.TrimSuffix(path.Base(within), chatSuffix)
	return dir + "chats/" + idleName(numberOf(t.ID), name[strings.LastIndex(name, "-")+1:])
}

// numberOf returns the index of a main file among the main files.
func numberOf(id string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(id, event.Main+"."))
	if err != nil || n < 1 {
		return 0
	}
	return n - 1
}
