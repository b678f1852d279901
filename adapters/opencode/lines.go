package opencode

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
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
	Updated   int64  `json:"time_updated"`
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

func (r *reader) line(raw []byte) error {
	var l rowLine
	if err := json.Unmarshal(raw, &l); err != nil {
		return err
	}
	switch {
	case !l.valid():
		return errors.New("no line of an export")
	case l.Reset:
		r.book = newBook()
		return nil
	case l.Gone != "":
		delete(r.book.messages, l.Gone)
		delete(r.book.parts, l.Gone)
		return nil
	case len(l.Row) == 0:
		return nil
	}
	return r.row(&l)
}

func (r *reader) row(l *rowLine) error {
	switch l.Table {
	case "session", "message", "part", logTable:
	default:
		return nil
	}
	var c columns
	if err := json.Unmarshal(l.Row, &c); err != nil {
		return fmt.Errorf("table %s: row %d: %w", l.Table, l.Rowid, err)
	}
	data := []byte(c.Data)
	switch l.Table {
	case "session":
		r.book.sessions[c.ID] = c.ParentID
	case "message":
		return r.book.addMessage(c.ID, c.SessionID, l.Rowid, data)
	case "part":
		return r.book.addPart(c.ID, c.MessageID, c.SessionID, entry{row: l.Rowid, made: c.Created, updated: c.Updated}, data)
	case logTable:
		return r.book.addEvent(c.Aggregate, l.Rowid, strings.TrimSpace(c.Type), data)
	}
	return nil
}
