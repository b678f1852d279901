package opencode

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/sojourn-run/sojourn/event/jsonl"
)

// rowLine is a line of an export: a row in its current state, or a deleted one;
// the SQL of a table or index; or a mark that everything before is void.
type rowLine struct {
	Table string          `json:"table,omitempty"`
	Rowid int64           `json:"rowid,omitempty"`
	Row   json.RawMessage `json:"row,omitempty"`
	// Gone is the id of a row that was deleted.
	Gone string `json:"gone,omitempty"`
	// Clear: the table's rows follow, all of them.
	Clear bool `json:"clear,omitempty"`
	// Schema is SQL, and Kind what it creates: table, index, …
	Schema string `json:"schema,omitempty"`
	Kind   string `json:"kind,omitempty"`
	// Reset: the database follows from the start, and counts once its export is done.
	Reset bool `json:"reset,omitempty"`
	// Export is exportBegun or exportDone.
	Export string `json:"export,omitempty"`
}

// An export of several pieces is between these two. One without its end was cut
// off, so no cursor can be made of its lines.
const (
	exportBegun = "begun"
	exportDone  = "done"
)

// valid reports whether a line is one of an export.
func (l *rowLine) valid() bool {
	return l.Reset || l.Export != "" || l.Table != "" && (len(l.Row) > 0 || l.Gone != "" || l.Clear || l.Schema != "")
}

// isRow distinguishes an export from other JSON by its first line.
func isRow(first []byte) bool {
	var l rowLine
	return json.Unmarshal(first, &l) == nil && l.valid()
}

// secret are the tables whose rows are not exported: keys and accounts.
var secret = map[string]bool{
	"account": true, "account_state": true, "control_account": true, "credential": true, "session_share": true,
}

// pieceSize is about how many bytes of an export are in memory at once.
const pieceSize = 1 << 20

// lineWriter writes lines of an export, a piece at a time.
type lineWriter struct {
	buf  bytes.Buffer
	enc  *json.Encoder
	take func(lines []byte) error
	// marked: the export's end must be written, since its beginning was.
	marked bool
}

func newLineWriter(take func(lines []byte) error) *lineWriter {
	w := &lineWriter{take: take}
	w.enc = json.NewEncoder(&w.buf)
	w.enc.SetEscapeHTML(false)
	return w
}

func (w *lineWriter) add(l rowLine) error {
	w.marked = w.marked || l.Export == exportBegun
	if err := w.enc.Encode(l); err != nil {
		return err
	}
	return w.flush(pieceSize)
}

// flush writes the buffer if it has at least that many bytes.
func (w *lineWriter) flush(least int) error {
	if w.buf.Len() < least {
		return nil
	}
	piece := w.buf.Bytes()
	if least > 0 && !w.marked {
		w.marked = true
		piece = append([]byte(`{"export":"`+exportBegun+"\"}\n"), piece...)
	}
	err := w.take(piece)
	w.buf.Reset()
	return err
}

// end writes the rest.
func (w *lineWriter) end() error {
	if w.marked {
		if err := w.enc.Encode(rowLine{Export: exportDone}); err != nil {
			return err
		}
	}
	if w.buf.Len() == 0 {
		return nil
	}
	return w.flush(0)
}

// query writes a line for every row, and passes each to look, if there is one.
func (w *lineWriter) query(db queryer, table, where string, look func(columns []string, values []any), args ...any) error {
	return eachRow(db, table, where, func(l rowLine, columns []string, values []any) error {
		if look != nil {
			look(columns, values)
		}
		return w.add(l)
	}, args...)
}

// eachRow makes a line of every row.
func eachRow(db queryer, table, where string, do func(l rowLine, columns []string, values []any) error, args ...any) error {
	columns, rows, err := db.Query("SELECT rowid, * FROM "+quote(table)+" "+where+" ORDER BY rowid", args...)
	if err != nil {
		return fmt.Errorf("table %s: %w", table, err)
	}
	for values, err := range rows {
		if err != nil {
			return fmt.Errorf("table %s: %w", table, err)
		}
		rowid, _ := values[0].(int64)
		jsonl.CutRow(values)
		row, err := encodeRow(columns[1:], values[1:])
		if err == nil {
			err = do(rowLine{Table: table, Rowid: rowid, Row: row}, columns, values)
		}
		if err != nil {
			return fmt.Errorf("table %s: row %d: %w", table, rowid, err)
		}
	}
	return nil
}

// queryer answers queries; see adapters.Database.
type queryer interface {
	Query(sql string, args ...any) (columns []string, rows iter.Seq2[[]any, error], err error)
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// blob is the key of a value that is not text: {"$base64": …}.
const blob = "$base64"

// encodeRow writes a row's columns in their order.
func encodeRow(columns []string, values []any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	for i, name := range columns {
		sep := byte(',')
		if i == 0 {
			sep = '{'
		}
		buf.WriteByte(sep)
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		buf.Write(key)
		buf.WriteByte(':')
		v := values[i]
		switch x := v.(type) {
		case []byte:
			v = map[string]string{blob: base64.StdEncoding.EncodeToString(x)}
		case float64:
			v = json.RawMessage(realNumber(x))
		}
		if err := enc.Encode(v); err != nil {
			return nil, err
		}
		buf.Truncate(buf.Len() - 1) // the encoder's line end
	}
	buf.WriteByte('}')
	return buf.Bytes(), nil
}

// realNumber writes a real number so that it differs from an integer.
func realNumber(x float64) string {
	s := strconv.FormatFloat(x, 'g', -1, 64)
	if !strings.ContainsAny(s, ".eEIN") {
		s += ".0"
	}
	return s
}

// decodeRow decodes a row.
func decodeRow(raw json.RawMessage) (columns []string, values []any, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if _, err := dec.Token(); err != nil {
		return nil, nil, err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, nil, err
		}
		var v any
		if err := dec.Decode(&v); err != nil {
			return nil, nil, err
		}
		if v, err = columnValue(v); err != nil {
			return nil, nil, err
		}
		name, _ := key.(string)
		columns, values = append(columns, name), append(values, v)
	}
	_, err = dec.Token()
	return columns, values, err
}

func columnValue(v any) (any, error) {
	switch x := v.(type) {
	case json.Number:
		if strings.ContainsAny(x.String(), ".eE") {
			return x.Float64()
		}
		return x.Int64()
	case map[string]any:
		text, ok := x[blob].(string)
		if !ok {
			return nil, fmt.Errorf("a column holds an object")
		}
		return base64.StdEncoding.DecodeString(text)
	case bool, []any:
		return nil, fmt.Errorf("a column holds %T", v)
	}
	return v, nil
}

// digest hashes rows, in the order in which they are exported.
type digest struct{ h hash.Hash64 }

func newDigest() digest { return digest{fnv.New64a()} }

func (d digest) add(row []byte) {
	_, _ = d.h.Write(row) // a hash never fails
	_, _ = io.WriteString(d.h, "\n")
}

// sumOf returns the checksum of one row.
func sumOf(row []byte) string {
	d := newDigest()
	d.add(row)
	return d.sum()
}

func (d digest) sum() string { return strconv.FormatUint(d.h.Sum64(), 16) }
