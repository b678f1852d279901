package opencode

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// read reads the database among the sources. The snapshot is valid also with errors.
func read(path string, sources []adapters.Source) (*snapshot, []error) {
	var main, wal opener
	for _, s := range sources {
		switch {
		case s.ID == event.Main && s.Path == path:
			main = s.Open
		case s.ID == walID && s.Path == path+walSuffix:
			wal = s.Open
		}
	}
	if main == nil {
		return newSnapshot(new(rowStore)), []error{fmt.Errorf("opencode: transcript %s: a write-ahead log without its database", path)}
	}
	r := &reader{path: path, snapshot: newSnapshot(new(rowStore))}
	if err := r.read(main, wal); err != nil {
		r.fail(0, err)
	}
	return r.snapshot, r.errs
}

// reader fills a snapshot.
type reader struct {
	path     string
	snapshot *snapshot
	// before is the snapshot before an export from the start that has not ended yet.
	before *snapshot
	errs   []error
}

func (r *reader) fail(line int, err error) {
	r.errs = append(r.errs, failure(r.path, line, err))
}

func (r *reader) read(main, wal opener) error {
	in, err := main()
	if err != nil {
		return err
	}
	defer in.Close()
	br := bufio.NewReaderSize(in, 1<<16)
	begin, err := br.Peek(len(magic))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case len(begin) == 0:
		return errors.New("the file is empty")
	case string(begin) == magic:
		return r.database(main, wal)
	case begin[0] == '{', begin[0] == '[':
		return r.text(br)
	}
	return errors.New("neither an OpenCode database nor an export of one")
}

// database reads a SQLite file. A table that can't be read to its end costs
// its rest.
func (r *reader) database(main, wal opener) error {
	s, err := copyDatabase(main, wal)
	if err != nil {
		return err
	}
	defer s.close()
	tables, err := s.tables()
	if err != nil {
		r.fail(0, fmt.Errorf("read database: %w", err))
		if tables = s.salvage(); len(tables) == 0 {
			return nil
		}
	}
	if !tables["message"] || !tables["part"] || !tables["session"] {
		return errors.New("a database, but not one of OpenCode: it has no tables session, message and part")
	}
	r.sessions(s.db)
	r.messages(s.db)
	r.parts(s.db)
	if tables["event"] {
		r.events(s.db)
	}
	return nil
}

// scan reads a table forwards and, if that fails, backwards: a page that is lost
// in the middle costs its rows.
func (r *reader) scan(db *sql.DB, table, columns string, take func(scan func(...any) error) error) {
	forwards, err := r.scanOnce(db, fmt.Sprintf("SELECT %s FROM %s ORDER BY rowid", columns, table), take)
	if err == nil {
		return
	}
	r.fail(0, fmt.Errorf("table %s: after %d rows: %w", table, forwards, err))
	_, _ = r.scanOnce(db, fmt.Sprintf("SELECT %s FROM %s ORDER BY rowid DESC", columns, table), take)
}

func (r *reader) scanOnce(db *sql.DB, query string, take func(scan func(...any) error) error) (n int, err error) {
	rows, err := db.QueryContext(context.Background(), query)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := take(rows.Scan); err != nil {
			r.fail(0, err)
		}
		n++
	}
	return n, rows.Err()
}

func (r *reader) sessions(db *sql.DB) {
	r.scan(db, "session", "id, ifnull(parent_id, '')", func(scan func(...any) error) error {
		var id, parent string
		if err := scan(&id, &parent); err != nil {
			return err
		}
		r.snapshot.sessions[id] = parent
		return nil
	})
}

func (r *reader) messages(db *sql.DB) {
	r.scan(db, "message", "rowid, id, session_id, data", func(scan func(...any) error) error {
		var row int64
		var id, session string
		var data sql.RawBytes
		if err := scan(&row, &id, &session, &data); err != nil {
			return err
		}
		return r.snapshot.addMessage(id, session, row, data)
	})
}

func (r *reader) parts(db *sql.DB) {
	r.scan(db, "part", "rowid, id, message_id, session_id, time_created, data", func(scan func(...any) error) error {
		var e partRow
		var id, message, session string
		var data sql.RawBytes
		if err := scan(&e.row, &id, &message, &session, &e.made, &data); err != nil {
			return err
		}
		return r.snapshot.addPart(id, message, session, e, data)
	})
}

func (r *reader) events(db *sql.DB) {
	r.scan(db, "event", "rowid, aggregate_id, type, data", func(scan func(...any) error) error {
		var row int64
		var session, kind string
		var data sql.RawBytes
		if err := scan(&row, &session, &kind, &data); err != nil {
			return err
		}
		return r.snapshot.addEvent(session, row, kind, data)
	})
}

// conversation is the form of `opencode export` and of the server's list of
// messages.
type conversation struct {
	Info     *info             `json:"info"`
	Messages []messageAndParts `json:"messages"`
}

type messageAndParts struct {
	Info  json.RawMessage   `json:"info"`
	Parts []json.RawMessage `json:"parts"`
}

// text reads JSON: lines of changed rows, or the agent's own export.
func (r *reader) text(br *bufio.Reader) error {
	first, err := br.ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if isRow(first) {
		defer r.ignoreUnfinished()
		return r.lines(first, br)
	}
	rest, err := io.ReadAll(br)
	if err != nil {
		return err
	}
	var c conversation
	data := append(first, rest...)
	if data[0] == '[' {
		err = json.Unmarshal(data, &c.Messages)
	} else {
		err = json.Unmarshal(data, &c)
	}
	if err != nil || len(c.Messages) == 0 && c.Info == nil {
		// Not the agent's own export, so they are lines, and bad ones.
		return r.lines(first, bufio.NewReader(bytes.NewReader(rest)))
	}
	r.conversation(c)
	return nil
}

func (r *reader) conversation(c conversation) {
	if c.Info != nil {
		r.snapshot.sessions[c.Info.ID] = ""
	}
	row := int64(0)
	for _, m := range c.Messages {
		var i info
		row++
		if err := json.Unmarshal(m.Info, &i); err != nil || i.ID == "" {
			r.fail(0, fmt.Errorf("message %d: no message", row))
			continue
		}
		if _, known := r.snapshot.sessions[i.SessionID]; !known {
			r.snapshot.sessions[i.SessionID] = ""
		}
		if err := r.snapshot.addMessage(i.ID, i.SessionID, row, m.Info); err != nil {
			r.fail(0, err)
		}
		for n, raw := range m.Parts {
			var p part
			if err := json.Unmarshal(raw, &p); err != nil {
				r.fail(0, fmt.Errorf("message %s: part %d: %w", i.ID, n+1, err))
				continue
			}
			if err := r.snapshot.addPart(p.ID, i.ID, i.SessionID, partRow{row: int64(len(r.snapshot.parts) + 1)}, raw); err != nil {
				r.fail(0, err)
			}
		}
	}
}
