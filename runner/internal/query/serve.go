package query

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"

	"github.com/sojourn-run/sojourn/event/jsonl"

	_ "modernc.org/sqlite" // the driver
)

// patience is how long a query waits for a writer, in milliseconds.
const patience = "10000"

// Serve answers queries, a line each, until in ends. All of them see the database
// as it is at the first one. It is opened for reading only: nothing in it is
// changed, even if its last writer has ended.
func Serve(ctx context.Context, database string, in io.Reader, out io.Writer) (err error) {
	if err := regular(database); err != nil {
		return fmt.Errorf("query: %w", err)
	}
	name := url.URL{Scheme: "file", OmitHost: true, Path: database, RawQuery: url.Values{
		"mode": {"ro"}, "_pragma": {"busy_timeout(" + patience + ")", "query_only(1)", "temp_store(memory)"},
	}.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return fmt.Errorf("query: open %s: %w", database, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("query: open %s: %w", database, err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	queries, answers := json.NewDecoder(in), bufio.NewWriterSize(out, 1<<16)
	for {
		var q Query
		if err := queries.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("query: read stdin: %w", err)
		}
		end := Answer{End: true}
		lines := json.NewEncoder(answers)
		lines.SetEscapeHTML(false)
		if err := answer(ctx, tx, q, lines); err != nil {
			end.Error = err.Error()
		}
		if err := errors.Join(lines.Encode(end), answers.Flush()); err != nil {
			return fmt.Errorf("query: answer: %w", err)
		}
	}
}

// regular returns an error for a database, or a log, that is not a regular file:
// opening a pipe would wait for its writer.
func regular(database string) error {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		info, err := os.Stat(database + suffix)
		if suffix != "" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no regular file", database+suffix)
		}
	}
	return nil
}

func answer(ctx context.Context, tx *sql.Tx, q Query, lines *json.Encoder) error {
	args := make([]any, len(q.Args))
	for i, a := range q.Args {
		args[i] = a.V
	}
	rows, err := tx.QueryContext(ctx, q.SQL, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err == nil {
		err = lines.Encode(Answer{Columns: columns})
	}
	row, places := make([]Value, len(columns)), make([]any, len(columns))
	for i := range row {
		places[i] = &row[i].V
	}
	for err == nil && rows.Next() {
		if err = rows.Scan(places...); err == nil {
			cutRow(row)
			err = lines.Encode(Answer{Row: row})
		}
	}
	return errors.Join(err, rows.Err())
}

// cutRow cuts long values as an agent's long line would be: the reader's memory
// must not depend on what the agent has in a row.
func cutRow(row []Value) {
	values := make([]any, len(row))
	for i := range row {
		values[i] = row[i].V
	}
	jsonl.CutRow(values)
	for i := range row {
		row[i].V = values[i]
	}
}
