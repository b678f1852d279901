package runner

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"

	"github.com/sojourn-run/sojourn/runner/internal/query"
	"github.com/sojourn-run/sojourn/sandbox"
)

// Database is a SQLite database in a sandbox, as it is at the first query. It is
// queried in place: no file is copied. Not safe for concurrent use.
type Database struct {
	ctx     context.Context
	process sandbox.Process
	answers *json.Decoder
	stderr  tail
	errors  sync.WaitGroup
	broken  error
}

// wrongUsage is the exit code of a runner that does not know a command.
const wrongUsage = 2

// OpenDatabase opens a database in a sandbox for reading. spec configures how the
// runner that queries it is isolated; its Argv is not used. A fault of the
// database is the error of the first query.
func OpenDatabase(ctx context.Context, sb Execer, program string, spec RunSpec, file string) (*Database, error) {
	spec.Argv = []string{program, "query", "--database", file}
	line, err := json.Marshal(spec)
	if err != nil {
		return nil, wrap("query", err)
	}
	p, err := sb.Exec(ctx, sandbox.Command{Dir: anyDir, Argv: []string{program, "run"}})
	if err != nil {
		return nil, wrap("query", err)
	}
	d := &Database{ctx: ctx, process: p, answers: json.NewDecoder(bufio.NewReaderSize(p.Stdout(), 1<<16))}
	d.errors.Go(func() { _, _ = io.Copy(&d.stderr, p.Stderr()); _ = p.Stderr().Close() })
	// A runner that ends early reports why on its stderr.
	_, _ = p.Stdin().Write(append(line, '\n'))
	return d, nil
}

// Query returns a query's columns, and its rows, whose values are nil, int64,
// float64, string or []byte; a row is valid until the next one. The rows must be
// read before the next query.
func (d *Database) Query(sql string, args ...any) ([]string, iter.Seq2[[]any, error], error) {
	if d.broken != nil {
		return nil, nil, d.broken
	}
	q := query.Query{SQL: sql}
	for _, a := range args {
		q.Args = append(q.Args, query.Value{V: a})
	}
	line, err := json.Marshal(q)
	if err != nil {
		return nil, nil, wrap("query", err)
	}
	_, _ = d.process.Stdin().Write(append(line, '\n'))
	head, err := d.next()
	if err != nil {
		return nil, nil, err
	}
	if head.End {
		return nil, nil, wrap("query", errors.New(head.Error))
	}
	return head.Columns, d.rows, nil
}

func (d *Database) rows(yield func([]any, error) bool) {
	var row []any
	for wanted := true; ; {
		a, err := d.next()
		if err == nil && a.End && a.Error != "" {
			err = wrap("query", errors.New(a.Error))
		}
		if err != nil || a.End {
			if err != nil && wanted {
				yield(nil, err)
			}
			return
		}
		row = row[:0]
		for _, v := range a.Row {
			row = append(row, v.V)
		}
		wanted = wanted && yield(row, nil)
	}
}

// next reads an answer. A runner that has ended reports why on its stderr.
func (d *Database) next() (a query.Answer, err error) {
	if err = d.answers.Decode(&a); err == nil {
		return a, nil
	}
	_ = d.process.Stdin().Close()
	code, waited := d.process.Wait(d.ctx)
	d.errors.Wait()
	if waited != nil {
		err = waited
	} else if why := strings.TrimSpace(strings.ToValidUTF8(string(d.stderr), "\uFFFD")); why != "" {
		err = &ExitError{Code: code, Stderr: why}
	}
	if code == wrongUsage {
		err = errors.Join(errors.ErrUnsupported, err) // a runner of an older build
	}
	d.broken = wrap("query", err)
	return a, d.broken
}

// Close ends the runner that queried.
func (d *Database) Close() error {
	_ = d.process.Stdin().Close()
	_, _ = io.Copy(io.Discard, d.process.Stdout())
	_ = d.process.Stdout().Close()
	_, err := d.process.Wait(d.ctx)
	if err != nil {
		_ = d.process.Kill()
		_, _ = d.process.Wait(context.WithoutCancel(d.ctx))
		err = fmt.Errorf("close: %w", err)
	}
	d.errors.Wait()
	return wrap("query", err)
}
