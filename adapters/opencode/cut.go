package opencode

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/event"
)

// Cut leaves out the rows of messages and parts that make no kept block and come behind those that
// do, of subagents that the kept ones have not begun, and what the agent's own log has of them.
func (*Adapter) Cut(exported adapters.Source, keep func(conversation, block string) bool) (io.ReadCloser, error) {
	b, errs := read(exported.Path, []adapters.Source{exported})
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, b.close())
	}
	c, err := newCut(b, exported.Path, keep)
	if err = errors.Join(err, b.close()); err != nil {
		return nil, err
	}
	in, err := exported.Open()
	if err != nil {
		return nil, fmt.Errorf("opencode: open %s: %w", exported.Path, err)
	}
	out, w := io.Pipe()
	go func() { w.CloseWithError(errors.Join(c.copy(w, in), in.Close())) }()
	return out, nil
}

// cut is what is left out of an export, by the rows' ids.
type cut struct{ sessions, messages, parts map[string]bool }

// newCut follows the conversation as Parse does, to see which part makes which block.
func newCut(b *snapshot, path string, keep func(conversation, block string) bool) (cut, error) {
	root, err := b.choose(path)
	if err != nil || root == "" {
		return cut{}, err
	}
	m := making{b: b, root: root, keep: keep, kept: map[string]bool{}, left: map[string]bool{}, threads: map[string]string{}, last: -1}
	m.Yielder = emit.Yielder{Yield: func(ev event.Event, err error) bool {
		if err == nil {
			m.made(ev)
		}
		return true
	}}
	m.emitRoot(b, root)
	return m.cut(), nil
}

// making is a parser that notes what makes the kept blocks.
type making struct {
	parser
	b    *snapshot
	root string
	keep func(conversation, block string) bool
	// kept are the parts that make a kept block, and left those that make others only.
	kept, left map[string]bool
	// threads are the conversations of the native sessions.
	threads map[string]string
	// last is the row of the last message of the root session with a kept block.
	last int64
}

// made notes an event of the step that is being emitted.
func (m *making) made(ev event.Event) {
	made := blockOf(ev)
	// What is lost of a call is emitted with the next prompt.
	row := cmp.Or(m.b.parts[strings.TrimSuffix(made, resultID(""))], m.at.part)
	if made == "" || row == nil {
		return
	}
	q := row.part
	if th := m.Threads[q.SessionID]; th != nil {
		m.threads[q.SessionID] = th.Conversation
	}
	if !m.keep(ev.Context.Conversation(), made) {
		m.left[q.ID] = true
		return
	}
	m.kept[q.ID] = true
	if message := m.b.messages[q.MessageID]; message != nil && q.SessionID == m.root {
		m.last = max(m.last, message.row)
	}
}

// cut returns what is left out.
func (m *making) cut() cut {
	c := cut{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for id := range m.b.sessions {
		thread, told := m.threads[id]
		c.sessions[id] = id != m.root && m.b.root(id) == m.root && (!told || !m.keep(thread, ""))
	}
	for id, message := range m.b.messages {
		of := message.info.SessionID
		c.messages[id] = c.sessions[of] || of == m.root && message.row > m.last
	}
	for id, e := range m.b.parts {
		c.parts[id] = m.left[id] && !m.kept[id] || c.messages[e.part.MessageID]
	}
	return c
}

// blockOf returns the block that an event makes or changes.
func blockOf(ev event.Event) string {
	switch p := ev.Payload.(type) {
	case event.BlockUpsert:
		return p.Block.ID
	case event.SubagentSpawned:
		return event.SubagentBlockID(p.ToolUseID)
	}
	return ""
}

// copy writes the lines that are not left out.
func (c cut) copy(w io.Writer, r io.Reader) error {
	in := bufio.NewReaderSize(r, 1<<16)
	for n := 1; ; n++ {
		raw, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(bytes.TrimSpace(raw)) > 0 {
			out, lerr := c.leavesOut(raw)
			if lerr != nil {
				return fmt.Errorf("opencode: export: line %d: %w", n, lerr)
			}
			if !out {
				if _, werr := w.Write(raw); werr != nil {
					return werr
				}
			}
		}
		if err != nil {
			return nil
		}
	}
}

func (c cut) leavesOut(raw []byte) (bool, error) {
	var l rowOf
	if err := json.Unmarshal(raw, &l); err != nil {
		if shape := new(json.UnmarshalTypeError); errors.As(err, &shape) && !isConversation(l.Table) {
			return false, nil // a row of another table
		}
		return false, err
	}
	switch {
	case l.Gone != "":
		return c.sessions[l.Gone] || c.messages[l.Gone] || c.parts[l.Gone], nil
	case l.Row == nil:
		return false, nil
	case l.Table == "session":
		return c.sessions[l.Row.ID], nil
	case l.Table == "message":
		return c.messages[l.Row.ID], nil
	case l.Table == "part":
		return c.parts[l.Row.ID], nil
	case l.Table == logTable:
		return c.leavesOutEvent(l.Row), nil
	}
	return c.sessions[l.Row.SessionID] || c.sessions[l.Row.Aggregate], nil
}

// leavesOutEvent reports whether an event of the agent's log is about something that is left out.
func (c cut) leavesOutEvent(row *columns) bool {
	named := changedRows{ids: map[string]map[string]bool{"session": {}, "message": {}, "part": {}, "event_sequence": {}}}
	named.addEvent([]string{"data", "aggregate_id"}, []any{row.Data, row.Aggregate})
	for table, out := range map[string]map[string]bool{"session": c.sessions, "message": c.messages, "part": c.parts} {
		for id := range named.ids[table] {
			if out[id] {
				return true
			}
		}
	}
	return false
}
