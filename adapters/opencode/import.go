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
	"path/filepath"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// Import builds the database from its export, for a workspace that may have
// another path: the agent continues with a session only in the folder that the
// session names.
func (*Adapter) Import(exported []adapters.Source, l adapters.Launch, scratch string) (map[string]string, error) {
	files := map[string]string{}
	for _, src := range exported {
		if src.ID != event.Main {
			continue
		}
		files[database] = filepath.Join(scratch, "opencode.db")
		if err := importFile(src, files[database], l.Workspace); err != nil {
			return nil, fmt.Errorf("opencode: import %s: %w", src.Path, err)
		}
	}
	return files, nil
}

func importFile(src adapters.Source, file, workspace string) error {
	in, err := src.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	return build(file, in, workspace)
}

// build writes a database from lines. What an unfinished export may have to
// restore is kept on disk: in memory it would be unbounded, and SQLite would
// search all of it at each row.
func build(file string, in io.Reader, workspace string) (err error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=foreign_keys(0)&_pragma=synchronous(0)&_pragma=journal_mode(delete)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	b := &builder{tx: tx, inserts: map[string]*sql.Stmt{}}
	if err = b.all(in); err == nil {
		err = b.ignoreUnfinished()
	}
	if err == nil {
		err = b.move(workspace)
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err = tx.Commit(); err != nil {
		return err
	}
	// In the mode in which the agent leaves it. It would switch the journal itself
	// when it starts, which fails while the archive reads the database: the agent
	// then exits.
	_, err = db.ExecContext(context.Background(), "PRAGMA journal_mode = WAL")
	return err
}

type builder struct {
	tx *sql.Tx
	// made are the tables and indexes that exist already.
	made []string
	// unfinished: what follows the savepoint does not count until its export is done.
	// Before it the tables of madeBefore existed.
	unfinished bool
	madeBefore []string
	inserts    map[string]*sql.Stmt
}

func (b *builder) exec(query string, args ...any) error {
	_, err := b.tx.ExecContext(context.Background(), query, args...)
	return err
}

func (b *builder) all(in io.Reader) error {
	br := bufio.NewReaderSize(in, 1<<16)
	for n := 1; ; n++ {
		raw, err := br.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if len(bytes.TrimSpace(raw)) > 0 {
			if err := b.line(raw); err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
		}
		if err != nil {
			return nil
		}
	}
}

func (b *builder) line(raw []byte) error {
	var l rowLine
	if err := json.Unmarshal(raw, &l); err != nil {
		return err
	}
	switch {
	case !l.valid():
		return errors.New("no line of an export")
	case l.Reset:
		if l.Export == exportBegun {
			if err := b.begin(); err != nil {
				return err
			}
		}
		return b.reset()
	case l.Export != "":
		return b.done(l.Export)
	case l.Schema != "":
		return b.make(l)
	case l.Clear:
		return b.exec("DELETE FROM " + quote(l.Table))
	case l.Gone != "":
		return b.exec("DELETE FROM "+quote(l.Table)+" WHERE id = ?", l.Gone)
	}
	return b.insert(l)
}

// begin saves the current state until the export that starts is done. Of several
// that start only the first does: none of those before was done.
func (b *builder) begin() error {
	if b.unfinished {
		return nil
	}
	b.unfinished, b.madeBefore = true, slices.Clone(b.made)
	return b.exec("SAVEPOINT export")
}

func (b *builder) done(mark string) error {
	if mark != exportDone || !b.unfinished {
		return nil
	}
	b.unfinished, b.madeBefore = false, nil
	return b.exec("RELEASE export")
}

// ignoreUnfinished undoes an export from the start that did not end.
func (b *builder) ignoreUnfinished() error {
	if !b.unfinished {
		return nil
	}
	if err := b.forget(); err != nil {
		return err
	}
	b.made = b.madeBefore
	return errors.Join(b.exec("ROLLBACK TO export"), b.exec("RELEASE export"))
}

// reset drops everything.
func (b *builder) reset() error {
	for _, name := range slices.Backward(b.made) {
		if err := b.exec("DROP TABLE IF EXISTS " + quote(name)); err != nil {
			return err
		}
	}
	b.made = nil
	return b.forget()
}

func (b *builder) forget() error {
	for _, s := range b.inserts {
		if err := s.Close(); err != nil {
			return err
		}
	}
	clear(b.inserts)
	return nil
}

// make runs the SQL of a table or an index, and no other.
func (b *builder) make(l rowLine) error {
	if !slices.Contains([]string{"table", "index", "trigger", "view"}, l.Kind) ||
		!strings.HasPrefix(strings.ToUpper(strings.TrimSpace(l.Schema)), "CREATE ") {
		return fmt.Errorf("schema of a %q: %.80q", l.Kind, l.Schema)
	}
	if l.Kind == "table" {
		b.made = append(b.made, l.Table)
	}
	return b.exec(l.Schema)
}

func (b *builder) insert(l rowLine) error {
	columns, values, err := decodeRow(l.Row)
	if err != nil {
		return fmt.Errorf("table %s: row %d: %w", l.Table, l.Rowid, err)
	}
	key := l.Table + "\x00" + strings.Join(columns, "\x00")
	stmt := b.inserts[key]
	if stmt == nil {
		names := make([]string, len(columns))
		for i, c := range columns {
			names[i] = quote(c)
		}
		stmt, err = b.tx.PrepareContext(context.Background(), fmt.Sprintf("INSERT OR REPLACE INTO %s (rowid, %s) VALUES (?%s)",
			quote(l.Table), strings.Join(names, ", "), strings.Repeat(", ?", len(names))))
		if err != nil {
			return fmt.Errorf("table %s: %w", l.Table, err)
		}
		b.inserts[key] = stmt
	}
	if _, err := stmt.ExecContext(context.Background(), append([]any{l.Rowid}, values...)...); err != nil {
		return fmt.Errorf("table %s: row %d: %w", l.Table, l.Rowid, err)
	}
	return nil
}

// places are the columns with folders of the machine.
var places = map[string][]string{
	"session": {"directory"}, "project": {"worktree"}, "project_directory": {"directory"}, "workspace": {"directory"},
}

// move changes the sessions' workspace.
func (b *builder) move(workspace string) error {
	if err := b.forget(); err != nil {
		return err
	}
	if workspace == "" || !slices.Contains(b.made, "session") {
		return nil
	}
	olds, err := b.folders()
	if err != nil {
		return err
	}
	for _, old := range olds {
		if old == workspace {
			continue
		}
		for table, names := range places {
			for _, c := range names {
				if !slices.Contains(b.made, table) {
					continue
				}
				if err := b.replace(table, c, old, workspace); err != nil {
					return err
				}
			}
		}
		// The path within the project, if the project is the whole machine.
		if err := b.replace("session", "path", strings.TrimPrefix(old, "/"), strings.TrimPrefix(workspace, "/")); err != nil {
			return err
		}
	}
	return nil
}

// folders returns the sessions' former folders, the shortest path first: all of a
// home share a workspace, but one that was moved before may have old rows.
func (b *builder) folders() ([]string, error) {
	rows, err := b.tx.QueryContext(context.Background(), "SELECT DISTINCT directory FROM session ORDER BY length(directory)")
	if err != nil {
		return nil, fmt.Errorf("table session: %w", err)
	}
	defer rows.Close()
	var found []string
	for rows.Next() {
		var dir string
		if err := rows.Scan(&dir); err != nil {
			return nil, fmt.Errorf("table session: %w", err)
		}
		if !slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(dir, f+"/") }) && len(dir) > 1 {
			found = append(found, dir)
		}
	}
	return found, rows.Err()
}

func (b *builder) replace(table, column, old, now string) error {
	c := quote(column)
	err := b.exec(fmt.Sprintf("UPDATE %s SET %s = ? || substr(%s, length(?) + 1) WHERE %s = ? OR substr(%s, 1, length(?) + 1) = ? || '/'",
		quote(table), c, c, c, c), now, old, old, old, old)
	if err != nil {
		return fmt.Errorf("table %s: %w", table, err)
	}
	return nil
}
