package opencode

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"modernc.org/sqlite" // also the driver
	sqlite3 "modernc.org/sqlite/lib"
)

// opener opens a file of a home or an archive.
type opener func() (io.ReadCloser, error)

const (
	// walHeader is the length of the head of a write-ahead log, which has a
	// salt that changes whenever the log begins anew.
	walHeader = 32
	// magic is the beginning of every database.
	magic = "SQLite format 3\x00"
	// copies is how often a copy is retried because the log was restarted meanwhile.
	copies = 10
)

// dbCopy is a consistent copy of a database.
type dbCopy struct {
	dir string
	db  *sql.DB
}

// copyDatabase copies a database that may be written to meanwhile. Its pages are
// copied first and then its log: what a checkpoint writes into the pages in
// between is also in the log, unless that was restarted.
func copyDatabase(db, wal opener) (*dbCopy, error) {
	dir, err := os.MkdirTemp("", "sojourn-opencode-")
	if err != nil {
		return nil, fmt.Errorf("copy database: %w", err)
	}
	s := &dbCopy{dir: dir}
	if err = s.copy(db, wal); err == nil {
		err = s.open()
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *dbCopy) file() string { return filepath.Join(s.dir, "copy.db") }

func (s *dbCopy) copy(db, wal opener) error {
	for range copies {
		before, err := head(wal)
		if err != nil {
			return err
		}
		if err := save(db, s.file()); err != nil {
			return err
		}
		if err := save(wal, s.file()+"-wal"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		after, err := head(wal)
		if err != nil {
			return err
		}
		if bytes.Equal(before, after) {
			return nil
		}
	}
	return errors.New("copy database: its log began anew during every copy")
}

// head reads the head of a log; nothing if there is none.
func head(wal opener) ([]byte, error) {
	if wal == nil {
		return nil, nil
	}
	in, err := wal()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	defer in.Close()
	buf := make([]byte, walHeader)
	n, err := io.ReadFull(in, buf)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("read log: %w", err)
	}
	return buf[:n], nil
}

// save copies a file; without an opener there is none.
func save(open opener, path string) error {
	if open == nil {
		return fs.ErrNotExist
	}
	in, err := open()
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("copy database: %w", err)
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(fmt.Errorf("copy database: %w", err), out.Close())
	}
	return out.Close()
}

// open opens the copy. SQLite may change it.
func (s *dbCopy) open() error {
	db, err := sql.Open("sqlite", "file:"+s.file()+"?_pragma=query_only(1)&_pragma=temp_store(memory)")
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	db.SetMaxOpenConns(1)
	s.db = db
	return nil
}

// maxCopiedRow bounds a row that is read from a copy, in bytes: it is cut only
// once it is in memory. In place, rows may be of any length.
const maxCopiedRow = 128 << 20

// limitRows makes a row over maxCopiedRow an error.
func (s *dbCopy) limitRows() error {
	conn, err := s.db.Conn(context.Background())
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	_, err = sqlite.Limit(conn, sqlite3.SQLITE_LIMIT_LENGTH, maxCopiedRow)
	if err = errors.Join(err, conn.Close()); err != nil { // the only connection, which stays open
		return fmt.Errorf("limit rows: %w", err)
	}
	return nil
}

// Query implements queryer. No other process has the copy, so it does not change.
func (s *dbCopy) Query(query string, args ...any) ([]string, iter.Seq2[[]any, error], error) {
	rows, err := s.db.QueryContext(context.Background(), query, args...)
	if err != nil {
		return nil, nil, err
	}
	columns, err := rows.Columns()
	if err != nil {
		return nil, nil, errors.Join(err, rows.Close())
	}
	return columns, func(yield func([]any, error) bool) {
		defer rows.Close()
		values, places := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			places[i] = &values[i]
		}
		for rows.Next() {
			if err := rows.Scan(places...); err != nil {
				yield(nil, err)
				return
			}
			if !yield(values, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, err)
		}
	}, nil
}

func (s *dbCopy) close() error {
	var err error
	if s.db != nil {
		err = s.db.Close()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// salvage returns the tables of a truncated database, from which SQLite then
// reads what is left.
func (s *dbCopy) salvage() map[string]bool {
	if _, err := s.db.ExecContext(context.Background(), "PRAGMA writable_schema = ON"); err != nil {
		return nil
	}
	tables, err := s.tables()
	if err != nil {
		return nil
	}
	return tables
}

// tables returns those that the database has.
func (s *dbCopy) tables() (map[string]bool, error) {
	found := map[string]bool{}
	rows, err := s.db.QueryContext(context.Background(), "SELECT name FROM sqlite_schema WHERE type = 'table'")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		found[name] = true
	}
	return found, rows.Err()
}
