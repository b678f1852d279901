package gemini

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/lines"
	"github.com/sojourn-run/sojourn/event"
)

const (
	configDir  = ".gemini"
	chatPrefix = "session-"
	chatSuffix = ".jsonl"
	// subagentKind is the kind in the header of a subagent's file.
	subagentKind = "subagent"
)

// chat is a main chat file.
type chat struct {
	path    string
	session string
	started string
	// prompts: it has a prompt. The agent leaves a file without any for every
	// process.
	prompts bool
	// resumable: it has something that the agent can continue.
	resumable bool
	// size is the file's, in bytes, once all of it was read.
	size int64
	// dangling: the last prompt has no answer. last and stamp are the id and the
	// time of the last message.
	dangling    bool
	last, stamp string
	// restarted: the last line that is not a patch was another header. emptied: the agent
	// has taken the file for a new recording, and so emptied the conversation.
	restarted, emptied bool
	// project is of the header. at is where the line begins that is being read.
	project string
	at      int64
	// asked is the last prompt that the agent would load; spoke is the id of the last
	// message of the user or the model.
	asked asked
	spoke string
	// withdrawn is the last prompt, if the agent has taken it back; nil if not.
	withdrawn *withdrawn
}

// asked is a prompt in a file.
type asked struct {
	id, text string
	// from is where its line begins.
	from int64
}

// withdrawn are a prompt and what followed it. The agent takes both out of its memory if
// the prompt's request fails or is cancelled, which it is too if the process loses its host.
type withdrawn struct {
	asked
	// to is where their lines end.
	to int64
	// dangling: the prompt had no answer.
	dangling bool
}

// depth is how much of a file is read.
type depth bool

const (
	// glance ends at the first prompt, so that its cost does not depend on the
	// conversation's length: it is repeated while that grows.
	glance depth = false
	// whole is for a process that is about to load the file itself.
	whole depth = true
)

// chats returns the conversations in a home, the oldest first. With own they are
// only those of the conversation itself.
func chats(home adapters.Home, d depth, own bool) ([]chat, error) {
	all, err := surveys(home, d)
	if err != nil {
		return nil, err
	}
	var isOurs map[string]bool
	if own {
		if isOurs, err = ours(home, all); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(all, func(c chat) bool { return !c.prompts || own && !isOurs[c.session] }), nil
}

// surveys inspects the main chat files in a home, the oldest first.
func surveys(home adapters.Home, d depth) ([]chat, error) {
	var found []chat
	for _, suffix := range []string{chatSuffix, legacySuffix} {
		paths, err := home.Glob(path.Join(configDir, "tmp", "*", "chats", chatPrefix+"*"+suffix))
		if err != nil {
			return nil, fmt.Errorf("gemini: find transcripts: %w", err)
		}
		for _, p := range paths {
			c, err := survey(home, p, d)
			if errors.Is(err, fs.ErrNotExist) {
				continue // it is being moved
			}
			if err != nil {
				return nil, err
			}
			found = append(found, c)
		}
	}
	slices.SortStableFunc(found, func(a, b chat) int { return strings.Compare(a.started, b.started) })
	return found, nil
}

// survey inspects a chat file. A file that can't be parsed counts as one without
// prompts.
func survey(home adapters.Home, file string, d depth) (chat, error) {
	c := chat{path: file}
	open := func() (io.ReadCloser, error) {
		in, err := home.Open(file)
		if err == nil && d == glance {
			in = inPieces{in}
		}
		return in, err
	}
	if strings.HasSuffix(file, legacySuffix) {
		in, err := open()
		if err != nil {
			return c, fmt.Errorf("gemini: open %s: %w", file, err)
		}
		defer in.Close()
		return c.inOnePiece(in)
	}
	in, err := lines.Open("gemini", adapters.Source{Transcript: adapters.Transcript{Path: file}, Open: open})
	if err != nil {
		return c, err
	}
	defer in.Close()
	for {
		c.at = in.Size()
		raw, err := in.Shared()
		if err != nil && !errors.Is(err, io.EOF) {
			return c, in.At(err)
		}
		c.line(raw)
		if err != nil {
			c.size = in.Size()
			return c, nil
		}
		if d == glance && c.prompts && c.session != "" {
			return c, nil
		}
	}
}

// inPieces reads a little at a time, for a reader that ends soon and whose buffer
// is large.
type inPieces struct{ io.ReadCloser }

func (r inPieces) Read(p []byte) (int, error) { return r.ReadCloser.Read(p[:min(len(p), 4<<10)]) }

func (c chat) inOnePiece(in io.Reader) (chat, error) {
	var r record
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return c, nil // Parse reports what is wrong with it
	}
	c.header(&r)
	return c, nil
}

func (c *chat) line(raw []byte) {
	if isPatch(raw) {
		c.patch(raw)
		return
	}
	r, err := decodeRecord(raw)
	switch {
	case err != nil:
	case r.isHeader():
		c.restarted = c.prompts && len(r.Messages) == 0
		c.header(r)
	case r.ID != "":
		c.restarted = false
		c.message(r)
	}
}

func (c *chat) header(r *record) {
	if c.session == "" && r.Kind != subagentKind {
		c.session, c.started, c.project = r.SessionID, r.StartTime, r.ProjectHash
	}
	for _, raw := range r.Messages {
		if m, err := decodeRecord(raw); err == nil {
			c.message(m)
		}
	}
}

// message checks whether a message is one that the agent would resume for.
func (c *chat) message(r *record) {
	pieces, err := r.pieces()
	if err != nil {
		return
	}
	c.last, c.stamp = r.ID, r.Timestamp
	switch r.Type {
	case "user":
		c.spoke = r.ID
		c.user(r.ID, pieces)
	case "gemini":
		c.spoke = r.ID
		something := said(pieces) != "" || len(r.ToolCalls) > 0 || len(r.Thoughts) > 0
		c.resumable = c.resumable || something
		c.dangling = c.dangling && !something
	}
}

func (c *chat) user(id string, pieces []piece) {
	var b strings.Builder
	rich, answers := false, false
	for _, p := range pieces {
		b.WriteString(p.Text)
		rich = rich || p.InlineData != nil
		answers = answers || p.FunctionResponse != nil
	}
	text := strings.TrimSpace(b.String())
	asked := !answers && (!internal(text) || text == "" && rich)
	c.prompts = c.prompts || asked
	c.resumable = c.resumable || asked && !forgotten(text)
	c.dangling = asked || c.dangling && !answers
	if asked {
		c.asks(id, text)
	}
}

// asks notes a prompt. One that was added again and taken back again is left so.
func (c *chat) asks(id, text string) {
	again := id == c.asked.id
	c.asked, c.withdrawn = asked{}, nil
	if !again && !forgotten(text) {
		c.asked = asked{id, text, c.at}
	}
}

// patch handles the messages that replace all those before.
func (c *chat) patch(raw []byte) {
	messages := patched(raw)
	if messages == nil {
		return
	}
	after, withdraws := chat{}, c.asked.id != ""
	for _, raw := range messages {
		if m, err := decodeRecord(raw); err == nil {
			after.message(m)
			// A summary of the conversation has its last messages.
			withdraws = withdraws && m.ID != c.asked.id && m.ID != c.spoke
		}
	}
	if c.restarted && c.resumable && !after.resumable {
		c.emptied = true
		return
	}
	if withdraws && c.withdrawn == nil {
		c.withdrawn = &withdrawn{c.asked, c.at, c.dangling}
	}
	// A message that is only in patches is not a prompt.
	c.resumable, c.dangling, c.emptied = after.resumable, after.dangling, false
}

// unfinished finds out whether what the agent has taken back is of the turn that the
// process is to continue. Else it is taken back for good: a prompt that fails would fail
// with each of the next ones.
func (c *chat) unfinished(prompts []adapters.Unfinished) {
	w := c.withdrawn
	if w == nil || !slices.ContainsFunc(prompts, func(p adapters.Unfinished) bool { return strings.HasPrefix(w.text, strings.TrimSpace(p.Begins)) }) {
		c.withdrawn = nil
		return
	}
	c.resumable, c.dangling = true, w.dangling
}

// patched returns the messages of a patch; nil for a patch of something else.
func patched(raw []byte) []json.RawMessage {
	var r struct {
		Set struct {
			Messages []json.RawMessage `json:"messages"`
		} `json:"$set"`
	}
	if json.Unmarshal(raw, &r) != nil {
		return nil
	}
	return r.Set.Messages
}

// Transcripts returns the native sessions in the home: the conversation's own
// files, main, main.2 and so on if it was restarted, and those of their
// subagents. Without a launch's session it returns all sessions, each as main.
func (*Adapter) Transcripts(home adapters.Home, l adapters.Launch) ([]adapters.Transcript, error) {
	ofSession := l.SessionID != "" || l.NativeID != ""
	all, err := chats(home, glance, ofSession)
	if err != nil {
		return nil, err
	}
	var found []adapters.Transcript
	seen := map[string]int{}
	for i, c := range all {
		n := i
		if !ofSession {
			n = seen[c.session]
		}
		subs, err := subagents(home, path.Dir(c.path), c.session)
		if err != nil {
			return nil, err
		}
		found = append(found, adapters.Transcript{ID: mainID(n), Path: c.path, Kind: kindOf(c.path)})
		if seen[c.session] == 0 {
			found = append(found, subs...)
		}
		seen[c.session]++
	}
	return found, nil
}

// mainID returns the id of the n-th main file, counted from 0.
func mainID(n int) string {
	if n == 0 {
		return event.Main
	}
	return fmt.Sprintf("%s.%d", event.Main, n+1)
}

// kindOf: files in one piece are rewritten.
func kindOf(file string) adapters.Kind {
	if strings.HasSuffix(file, legacySuffix) {
		return adapters.Snapshot
	}
	return adapters.Append
}

// subagents returns the files of a session's subagents, and of theirs.
func subagents(home adapters.Home, chatsDir, session string) ([]adapters.Transcript, error) {
	var found []adapters.Transcript
	parents, seen := []string{session}, map[string]bool{session: true}
	for len(parents) > 0 {
		dir := path.Join(chatsDir, escape(parents[0]))
		parents = parents[1:]
		files, err := home.Glob(dir + "/*" + chatSuffix)
		if err != nil {
			return nil, fmt.Errorf("gemini: find subagents: %w", err)
		}
		for _, f := range files {
			id := strings.TrimSuffix(path.Base(f), chatSuffix)
			if !seen[id] {
				seen[id] = true
				parents = append(parents, id)
				found = append(found, adapters.Transcript{ID: id, Path: f, Kind: adapters.Append})
			}
		}
	}
	return found, nil
}

// escape returns a pattern that matches only the name.
func escape(name string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`, "/", "_").Replace(name)
}

// Identify returns what a file is by its header, with its companions.
func (*Adapter) Identify(home adapters.Home, file string) ([]adapters.Transcript, error) {
	in, err := home.Open(file)
	if err != nil {
		return nil, fmt.Errorf("gemini: open %s: %w", file, err)
	}
	defer in.Close()
	first, err := bufio.NewReader(in).ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("gemini: read %s: %w", file, err)
	}
	var head record
	if r, err := decodeRecord(first); err == nil {
		head = *r
	}
	if head.Kind == subagentKind {
		return []adapters.Transcript{{ID: strings.TrimSuffix(path.Base(file), chatSuffix), Path: file, Kind: adapters.Append}}, nil
	}
	found := []adapters.Transcript{{ID: event.Main, Path: file, Kind: kindOf(file)}}
	if head.SessionID == "" {
		return found, nil
	}
	subs, err := subagents(home, path.Dir(file), head.SessionID)
	return append(found, subs...), err
}
