package turns

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver
)

// DatabasePath is the path of OpenCode's sessions in its home.
const DatabasePath = ".local/share/opencode/opencode.db"

// Database is a session of OpenCode. Not safe for concurrent use.
type Database struct{ db *sql.DB }

// tables are the agent's tables that have its conversations.
const tables = `
PRAGMA journal_mode = wal;
CREATE TABLE event_sequence (aggregate_id text PRIMARY KEY, seq integer NOT NULL, owner_id text);
CREATE TABLE event (id text PRIMARY KEY, aggregate_id text NOT NULL, seq integer NOT NULL, type text NOT NULL, data text NOT NULL);
CREATE TABLE session (id text PRIMARY KEY, parent_id text, title text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE todo (session_id text NOT NULL, content text NOT NULL);
INSERT INTO session VALUES ('ses_1', NULL, 'x', 1, 1);
INSERT INTO event_sequence VALUES ('ses_1', 0, NULL);
`

// NewDatabase creates the database of a session in a home.
func NewDatabase(ctx context.Context, home string) (*Database, error) {
	file := filepath.Join(home, filepath.FromSlash(DatabasePath))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, tables); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Database{db}, nil
}

// Close closes the database.
func (d *Database) Close() error { return d.db.Close() }

// Answer returns the id of the block with the answer of the n-th turn.
func (d *Database) Answer(n int) string { return fmt.Sprintf("prt_%012x1", n) }

// Turn writes the n-th turn.
func (d *Database) Turn(ctx context.Context, n int) (err error) {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	do := func(query string, args ...any) {
		if err == nil {
			_, err = tx.ExecContext(ctx, query, args...)
		}
	}
	for i, role := range []string{"user", "assistant"} {
		message, part, seq := fmt.Sprintf("msg_%012x%d", n, i), fmt.Sprintf("prt_%012x%d", n, i), 10*n+5*i
		do("INSERT INTO message VALUES (?, 'ses_1', ?, ?, ?)", message, n, n, fmt.Sprintf(`{"role":%q,"time":{"created":%d}}`, role, n))
		do("INSERT INTO part VALUES (?, ?, 'ses_1', ?, ?, ?)", part, message, n, n, fmt.Sprintf(`{"type":"text","text":%q,"time":{"start":1,"end":2}}`, text))
		do("INSERT INTO event VALUES (?, 'ses_1', ?, 'message.updated.1', ?)", fmt.Sprint("evt_m", seq), seq, fmt.Sprintf(`{"info":{"id":%q,"role":%q}}`, message, role))
		do("INSERT INTO event VALUES (?, 'ses_1', ?, 'message.part.updated.1', ?)", fmt.Sprint("evt_p", seq), seq, fmt.Sprintf(`{"part":{"id":%q,"type":"text","text":%q}}`, part, text))
	}
	do("UPDATE session SET time_updated = ?", n)
	do("UPDATE event_sequence SET seq = ?", 10*n)
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
