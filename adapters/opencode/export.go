package opencode

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
)

// cursor is how far an export has come.
type cursor struct {
	// Log is the last row of the agent's own log of events: it names every
	// message and part that has changed since.
	Log int64 `json:"log"`
	// Times are the latest time_updated of the tables that have one, and Last the checksums
	// of the rows with that time, by table and rowid; of maxLast of them, if they are more.
	Times map[string]int64            `json:"times,omitempty"`
	Last  map[string]map[int64]string `json:"last,omitempty"`
	// Sums are checksums of the tables that are exported whole.
	Sums map[string]string `json:"sums,omitempty"`
	// Schema is the checksum of the tables' and indexes' SQL.
	Schema string `json:"schema"`
	// Print is the fingerprint of the write-ahead log at its last read: an equal one
	// means that nothing has changed. "" if not known.
	Print string `json:"print,omitempty"`
}

func newCursor() cursor {
	return cursor{Times: map[string]int64{}, Last: map[string]map[int64]string{}, Sums: map[string]string{}}
}

// updated records a row with the time of its last change.
func (c *cursor) updated(table string, rowid, at int64, row []byte) {
	if at < c.Times[table] {
		return
	}
	if at > c.Times[table] || c.Last[table] == nil {
		c.Times[table], c.Last[table] = at, map[int64]string{}
	}
	delete(c.Last[table], rowid)
	if len(c.Last[table]) < maxLast {
		c.Last[table][rowid] = sumOf(row)
	}
}

// maxLast bounds a cursor: a table whose rows were all changed at once may be of any length.
const maxLast = 256

// Export writes the rows that have changed. They are read in place. If that can't
// be done, as with a file that a tool has closed, it is copied first.
func (*Adapter) Export(home adapters.Home, t adapters.Transcript, since json.RawMessage, take func(lines []byte) error) (json.RawMessage, error) {
	if t.ID == walID {
		return since, nil
	}
	e := exporter{path: t.Path}
	if len(since) > 0 && string(since) != "null" {
		if err := json.Unmarshal(since, &e.was); err != nil {
			return nil, fmt.Errorf("opencode: export %s: cursor: %w", t.Path, err)
		}
		e.from = true
	}
	taken := false
	e.take = func(lines []byte) error {
		taken = true
		return take(lines)
	}
	live := e
	next, err := live.exportLive(home)
	if err != nil && !taken {
		next, err = e.export(
			func() (io.ReadCloser, error) { return home.Open(t.Path) },
			func() (io.ReadCloser, error) { return home.Open(t.Path + walSuffix) })
	}
	if err != nil {
		return nil, fmt.Errorf("opencode: export %s: %w", t.Path, err)
	}
	data, err := json.Marshal(next)
	if err != nil {
		return nil, fmt.Errorf("opencode: export %s: cursor: %w", t.Path, err)
	}
	return data, nil
}

type exporter struct {
	path string
	take func(lines []byte) error
	w    *lineWriter
	// was is the cursor to continue from, if from is set.
	was, now cursor
	from     bool
	db       queryer
	tables   []string
}

// exportLive exports a database in place.
func (e *exporter) exportLive(home adapters.Home) (next cursor, err error) {
	db, err := openLive(home, e.path)
	if err != nil {
		return e.was, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return e.changes(db, "")
}

// openLive opens a database in place. Error: [errors.ErrUnsupported] if that is
// not possible, and for a database without a write-ahead log: its agent, which is
// just starting, switches to one, and exits if the database is being read at that
// moment.
func openLive(home adapters.Home, file string) (adapters.Database, error) {
	live, ok := home.(adapters.Databases)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	in, err := home.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var head [journalAt + 1]byte
	if _, err := io.ReadFull(in, head[:]); err != nil || head[journalAt] != journalIsLog {
		return nil, errors.ErrUnsupported
	}
	return live.OpenDatabase(file)
}

// The place in a database file with the journal mode
// (sqlite.org/fileformat2.html, 1.3.3).
const (
	journalAt    = 19
	journalIsLog = 2
)

func (e *exporter) export(db, wal opener) (cursor, error) {
	print, err := fingerprint(db, wal)
	if err != nil {
		return e.was, err
	}
	if e.from && print == e.was.Print {
		return e.was, nil
	}
	s, err := copyDatabase(db, wal)
	if err != nil {
		return e.was, err
	}
	defer s.close()
	if err := s.limitRows(); err != nil {
		return e.was, err
	}
	return e.changes(s, print)
}

// changes exports from a database that does not change meanwhile.
func (e *exporter) changes(db queryer, print string) (cursor, error) {
	e.db, e.w = db, newLineWriter(e.take)
	e.now = newCursor()
	e.now.Print = print
	if err := e.rows(); err != nil {
		return e.was, err
	}
	return e.now, e.w.end()
}

// fingerprint returns one of the log's content and the database's head, which
// together change with every write.
func fingerprint(db, wal opener) (string, error) {
	h := sha256.New()
	in, err := db()
	if err != nil {
		return "", err
	}
	defer in.Close()
	if _, err := io.CopyN(h, in, 100); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	log, err := wal()
	if err == nil {
		defer log.Close()
		_, err = io.Copy(h, log)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// rows writes what has changed, schema first.
func (e *exporter) rows() error {
	if err := e.schema(); err != nil {
		return err
	}
	if err := e.begin(); err != nil {
		return err
	}
	changed, err := e.log()
	if err != nil {
		return err
	}
	for _, table := range e.tables {
		switch {
		case secret[table] || table == logTable:
		case changed != nil && (table == "message" || table == "part" || table == "event_sequence"):
			err = e.named(table, changed[table])
		case e.timed(table):
			err = e.newer(table, changed[table])
		default:
			err = e.whole(table)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const logTable = "event"

// maxSchema is the longest SQL of a table or index that is exported, in bytes.
const maxSchema = 64 << 10

// schema finds the tables, and writes their SQL if it is new.
func (e *exporter) schema() error {
	sum := newDigest()
	err := e.eachSchema(func(l rowLine) error {
		if l.Kind == "table" {
			e.tables = append(e.tables, l.Table)
		}
		sum.add([]byte(l.Schema))
		return nil
	})
	if err != nil {
		return err
	}
	if e.now.Schema = sum.sum(); e.now.Schema == e.was.Schema {
		return nil
	}
	if e.from { // the agent has changed its tables: every row may have changed
		e.was, e.from = cursor{}, false
		if err := e.w.add(rowLine{Reset: true, Export: exportBegun}); err != nil {
			return err
		}
	}
	return e.eachSchema(e.w.add)
}

func (e *exporter) eachSchema(do func(rowLine) error) error {
	_, rows, err := e.db.Query("SELECT type, name, sql FROM sqlite_schema WHERE octet_length(sql) <= ? AND name NOT LIKE 'sqlite_%'"+
		" ORDER BY type DESC, rowid", int64(maxSchema))
	if err != nil {
		return fmt.Errorf("read schema: %w", err)
	}
	for row, err := range rows {
		var l rowLine
		if err == nil {
			l.Kind, _ = row[0].(string)
			l.Table, _ = row[1].(string)
			l.Schema, _ = row[2].(string)
			err = do(l)
		}
		if err != nil {
			return fmt.Errorf("read schema: %w", err)
		}
	}
	return nil
}

// begin exports everything again if the log is shorter than before: something was
// deleted without a record.
func (e *exporter) begin() error {
	if !e.from || !slices.Contains(e.tables, logTable) {
		return nil
	}
	last, err := e.number("SELECT max(rowid) FROM event")
	if err != nil || last >= e.was.Log {
		return err
	}
	return e.startOver()
}

// startOver voids the earlier export.
func (e *exporter) startOver() error {
	e.was, e.from, e.tables = cursor{}, false, nil
	if err := e.w.add(rowLine{Reset: true, Export: exportBegun}); err != nil {
		return err
	}
	return e.schema()
}

// number returns the one number of a query; 0 for null.
func (e *exporter) number(query string) (n int64, err error) {
	_, rows, err := e.db.Query(query)
	if err != nil {
		return 0, err
	}
	for row, rowErr := range rows {
		if err = rowErr; err == nil {
			n, _ = row[0].(int64)
		}
	}
	return n, err
}

// maxNamed bounds the ids that the new part of the log may name, in bytes. If it
// names more, everything is exported again, which needs no ids.
const maxNamed = 4 << 20

// changedRows are the ids of changed rows, by table.
type changedRows struct {
	ids   map[string]map[string]bool
	bytes int
}

// log writes the new part of the agent's log, and returns the ids that it names,
// by table; nil at the beginning, when everything is written anyway.
func (e *exporter) log() (map[string][]string, error) {
	if !slices.Contains(e.tables, logTable) {
		return nil, nil
	}
	named := changedRows{ids: map[string]map[string]bool{"session": {}, "message": {}, "part": {}, "event_sequence": {}}}
	err := e.w.query(e.db, logTable, "WHERE rowid > ?", func(columns []string, values []any) {
		e.now.Log, _ = values[0].(int64)
		if e.from && named.bytes <= maxNamed {
			named.addEvent(columns, values)
		}
	}, e.was.Log)
	if e.now.Log == 0 {
		e.now.Log = e.was.Log
	}
	if err != nil || !e.from {
		return nil, err
	}
	if named.bytes > maxNamed {
		if err := e.startOver(); err != nil {
			return nil, err
		}
		return e.log()
	}
	out := map[string][]string{}
	for table, ids := range named.ids {
		out[table] = slices.Sorted(maps.Keys(ids))
	}
	return out, nil
}

// addEvent records what an event changed.
func (c *changedRows) addEvent(columns []string, values []any) {
	data, _ := values[slices.Index(columns, "data")].(string)
	session, _ := values[slices.Index(columns, "aggregate_id")].(string)
	c.add("session", session)
	c.add("event_sequence", session)
	var about struct {
		MessageID string `json:"messageID"`
		PartID    string `json:"partID"`
		Info      struct {
			ID string `json:"id"`
		} `json:"info"`
		Part struct {
			ID string `json:"id"`
		} `json:"part"`
	}
	if json.Unmarshal([]byte(data), &about) != nil {
		return // an event of another kind
	}
	for _, id := range []string{about.MessageID, about.Info.ID} {
		c.add("message", id)
	}
	for _, id := range []string{about.PartID, about.Part.ID} {
		c.add("part", id)
	}
}

func (c *changedRows) add(table, id string) {
	if !c.ids[table][id] {
		c.ids[table][strings.Clone(id)] = true // the text that it is cut from is not retained
		c.bytes += len(id) + idOverhead
	}
}

// idOverhead is about how many bytes a map has beside an id.
const idOverhead = 64

// named writes the rows with those ids, or that they were deleted.
func (e *exporter) named(table string, ids []string) error {
	key := "id"
	if table == "event_sequence" {
		key = "aggregate_id"
	}
	for _, id := range ids {
		if id == "" {
			continue
		}
		found := false
		err := e.w.query(e.db, table, "WHERE "+key+" = ?", func([]string, []any) { found = true }, id)
		if err != nil {
			return err
		}
		if !found && (table != "message" || strings.HasPrefix(id, "msg")) {
			if err := e.w.add(rowLine{Table: table, Gone: id}); err != nil {
				return err
			}
		}
	}
	return nil
}

// timed reports whether a table's rows have their time of change. Rows of small
// tables are also deleted, which no time shows.
func (e *exporter) timed(table string) bool {
	if !slices.Contains([]string{"session", "project", "message", "part", "session_message"}, table) {
		return false
	}
	n, err := e.number("SELECT count(*) FROM pragma_table_info('" + table + "') WHERE name = 'time_updated'")
	return err == nil && n == 1
}

// newer writes rows that have changed since, those of the last known millisecond by their
// content. So are those that the log names, if their times are before that: the clock may
// have been set back.
func (e *exporter) newer(table string, ids []string) error {
	e.now.Times[table] = e.was.Times[table]
	written := map[string]bool{}
	err := eachRow(e.db, table, "WHERE time_updated >= ?", func(l rowLine, columns []string, values []any) error {
		at, _ := values[slices.Index(columns, "time_updated")].(int64)
		e.now.updated(table, l.Rowid, at, l.Row)
		if len(ids) > 0 {
			id, _ := values[slices.Index(columns, "id")].(string)
			written[strings.Clone(id)] = true
		}
		if at == e.was.Times[table] && e.was.Last[table][l.Rowid] == sumOf(l.Row) {
			return nil
		}
		return e.w.add(l)
	}, e.was.Times[table])
	if err != nil {
		return err
	}
	return e.named(table, slices.DeleteFunc(ids, func(id string) bool { return written[id] }))
}

// whole writes a small table if anything in it has changed. It is read twice and
// never held in memory, since nothing guarantees that the agent keeps it small.
func (e *exporter) whole(table string) error {
	sum, rows := newDigest(), false
	scratch := newLineWriter(nil)
	err := eachRow(e.db, table, "", func(l rowLine, _ []string, _ []any) error {
		rows = true
		scratch.buf.Reset()
		err := scratch.enc.Encode(l)
		sum.add(bytes.TrimSuffix(scratch.buf.Bytes(), []byte("\n")))
		return err
	})
	if err != nil {
		return err
	}
	if rows {
		e.now.Sums[table] = sum.sum()
	}
	if e.was.Sums[table] == e.now.Sums[table] {
		return nil
	}
	if err := e.w.add(rowLine{Table: table, Clear: true}); err != nil {
		return err
	}
	return e.w.query(e.db, table, "", nil)
}

// Cursor returns the cursor behind lines, made from their content. Behind an
// export that was cut off it is empty: everything is exported again.
func (*Adapter) Cursor(lines io.Reader) (json.RawMessage, error) {
	c := newCursor()
	whole := map[string]digest{}
	schema, startOver, cutOff := newDigest(), true, false
	br := bufio.NewReaderSize(lines, 1<<16)
	for n := 1; ; n++ {
		raw, err := br.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("opencode: export: line %d: %w", n, err)
		}
		if len(bytes.TrimSpace(raw)) == 0 {
			break
		}
		var l rowLine
		if err := json.Unmarshal(raw, &l); err != nil {
			return nil, fmt.Errorf("opencode: export: line %d: %w", n, err)
		}
		switch {
		case l.Reset:
			c = newCursor()
			whole, startOver, cutOff = map[string]digest{}, true, l.Export == exportBegun
		case l.Schema != "":
			if startOver {
				schema, startOver = newDigest(), false
			}
			schema.add([]byte(l.Schema))
			c.Schema = schema.sum()
		case l.Export != "":
			cutOff = l.Export == exportBegun
		case l.Clear:
			whole[l.Table] = newDigest()
		default:
			c.pass(&l, raw, whole)
		}
		if err != nil {
			break
		}
	}
	if cutOff {
		return json.Marshal(cursor{})
	}
	for table, d := range whole {
		if sum := d.sum(); sum != newDigest().sum() {
			c.Sums[table] = sum
		}
	}
	return json.Marshal(c)
}

// pass records a row that was exported, or that it is gone.
func (c *cursor) pass(l *rowLine, raw []byte, whole map[string]digest) {
	if d, ok := whole[l.Table]; ok {
		d.add(bytes.TrimSuffix(raw, []byte("\n")))
		return
	}
	if l.Table == logTable {
		c.Log = max(c.Log, l.Rowid)
		return
	}
	if l.Gone != "" {
		delete(c.Last, l.Table) // another row may get its number
		return
	}
	var row struct {
		Updated int64 `json:"time_updated"`
	}
	if json.Unmarshal(l.Row, &row) == nil && row.Updated > 0 {
		c.updated(l.Table, l.Rowid, row.Updated, l.Row)
	}
}
