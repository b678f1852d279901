package opencode

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// columns are those of the rows of conversations.
type columns struct {
	ID        string `json:"id"`
	ParentID  string `json:"parent_id"`
	SessionID string `json:"session_id"`
	MessageID string `json:"message_id"`
	Aggregate string `json:"aggregate_id"`
	Type      string `json:"type"`
	Created   int64  `json:"time_created"`
	Data      string `json:"data"`
}

// lines reads an export: the last line about a row counts.
func (r *reader) lines(first []byte, br *bufio.Reader) error {
	raw, end := first, false
	for n := 1; ; n++ {
		if len(bytes.TrimSpace(raw)) > 0 {
			if err := r.line(raw); err != nil {
				r.fail(n, err)
			}
		}
		if end {
			return nil
		}
		var err error
		raw, err = br.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("line %d: %w", n+1, err)
		}
		end = err != nil
	}
}

// rowOf is a line whose row has the needed columns, decoded at once.
type rowOf struct {
	Table  string   `json:"table"`
	Rowid  int64    `json:"rowid"`
	Row    *columns `json:"row"`
	Gone   string   `json:"gone"`
	Clear  bool     `json:"clear"`
	Schema string   `json:"schema"`
	Reset  bool     `json:"reset"`
	Export string   `json:"export"`
}

func (r *reader) line(raw []byte) error {
	var l rowOf
	err := json.Unmarshal(raw, &l)
	var shape *json.UnmarshalTypeError
	if errors.As(err, &shape) && l.Table != "" && !isConversation(l.Table) {
		return nil // a row of another table
	}
	switch {
	case err != nil:
		return err
	case l.Reset:
		r.reset(l.Export == exportBegun)
	case l.Export != "":
		if l.Export == exportDone {
			r.before = nil
		}
	case l.Table == "":
		return errors.New("no line of an export")
	case l.Gone != "":
		delete(r.snapshot.messages, l.Gone)
		delete(r.snapshot.parts, l.Gone)
	case l.Row != nil && isConversation(l.Table):
		return r.row(&l)
	case l.Row == nil && !l.Clear && l.Schema == "":
		return errors.New("no line of an export")
	}
	return nil
}

// reset starts a new snapshot. The previous one is kept while the new one may be
// unfinished.
func (r *reader) reset(begun bool) {
	if begun && r.before == nil {
		r.before = r.snapshot
	}
	r.snapshot = newSnapshot(r.snapshot.rowStore)
}

// ignoreUnfinished undoes an export from the start that did not end.
func (r *reader) ignoreUnfinished() {
	if r.before != nil {
		r.snapshot, r.before = r.before, nil
	}
}

// isConversation reports whether a table's rows are part of conversations.
func isConversation(table string) bool {
	switch table {
	case "session", "message", "part", logTable:
		return true
	}
	return false
}

func (r *reader) row(l *rowOf) error {
	c := l.Row
	if l.Table == "session" {
		r.snapshot.sessions[c.ID] = c.ParentID
		return nil
	}
	data := []byte(c.Data)
	switch l.Table {
	case "message":
		return r.snapshot.addMessage(c.ID, c.SessionID, l.Rowid, data)
	case "part":
		return r.snapshot.addPart(c.ID, c.MessageID, c.SessionID, partRow{row: l.Rowid, made: c.Created}, data)
	}
	return r.snapshot.addEvent(c.Aggregate, l.Rowid, c.Type, data)
}
