package opencode

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// columns are those of the rows that conversations are made of.
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

// lines reads an export: the last word about a row counts.
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

// rowOf is a line whose row has the columns that matter, decoded at once.
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
	if errors.As(err, &shape) && l.Table != "" && !told(l.Table) {
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
		delete(r.book.messages, l.Gone)
		delete(r.book.parts, l.Gone)
	case l.Row != nil && told(l.Table):
		return r.row(&l)
	case l.Row == nil && !l.Clear && l.Schema == "":
		return errors.New("no line of an export")
	}
	return nil
}

// reset begins a book anew. The one before is kept while the new one may be unfinished.
func (r *reader) reset(begun bool) {
	if begun && r.before == nil {
		r.before = r.book
	}
	r.book = newBook(r.book.shelf)
}

// ignoreUnfinished takes back what an export began anew and did not end.
func (r *reader) ignoreUnfinished() {
	if r.before != nil {
		r.book, r.before = r.before, nil
	}
}

// told reports whether a table's rows are part of conversations.
func told(table string) bool {
	switch table {
	case "session", "message", "part", logTable:
		return true
	}
	return false
}

func (r *reader) row(l *rowOf) error {
	c := l.Row
	if l.Table == "session" {
		r.book.sessions[c.ID] = c.ParentID
		return nil
	}
	data := []byte(c.Data)
	switch l.Table {
	case "message":
		return r.book.addMessage(c.ID, c.SessionID, l.Rowid, data)
	case "part":
		return r.book.addPart(c.ID, c.MessageID, c.SessionID, entry{row: l.Rowid, made: c.Created}, data)
	}
	return r.book.addEvent(c.Aggregate, l.Rowid, c.Type, data)
}
