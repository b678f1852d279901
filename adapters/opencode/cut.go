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
	c := cut{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	root, err := b.choose(path)
	if err != nil || root == "" {
		return c, err
	}
	kept, lastRow, threads := map[string]bool{}, int64(-1), map[string]string{}
	p := &parser{}
	p.Yielder = emit.Yielder{Yield: func(ev event.Event, err error) bool {
		made := blockOf(ev)
		// What is lost of a call is emitted with the next prompt.
		row := cmp.Or(b.parts[strings.TrimSuffix(made, resultID(""))], p.at.part)
		if err != nil || made == "" || row == nil {
			return true
		}
		q := row.part
		if th := p.Threads[q.SessionID]; th != nil {
			threads[q.SessionID] = th.Conversation
		}
		if !keep(ev.Context.Conversation(), made) {
			c.parts[q.ID] = !kept[q.ID]
			return true
		}
		kept[q.ID], c.parts[q.ID] = true, false
		if m := b.messages[q.MessageID]; m != nil && q.SessionID == root {
			lastRow = max(lastRow, m.row)
		}
		return true
	}}
	p.emitRoot(b, root)
	for id := range b.sessions {
		thread, told := threads[id]
		c.sessions[id] = id != root && b.root(id) == root && (!told || !keep(thread, ""))
	}
	for id, m := range b.messages {
		c.messages[id] = c.sessions[m.info.SessionID] || m.info.SessionID == root && m.row > lastRow
	}
	for id, e := range b.parts {
		c.parts[id] = c.parts[id] || c.messages[e.part.MessageID]
	}
	return c, nil
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
