// Package wire is the protocol between a runner's supervisor and its clients:
// JSON lines of any length, requests in one direction, replies and records in the
// other, matched by the request's id.
//
// The first line of a connection is the request hello with token and epoch. The
// request records opens a stream: its replies carry one record each, the last one
// has end set. A stream sends no more than the client has granted credit for, in
// bytes, so that one slow reader does not delay the replies behind it; one record
// may always be on its way. The request tool-calls opens a stream of replies with one
// tool call each.
package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// The operations.
const (
	OpHello      = "hello"
	OpRecords    = "records"
	OpCredit     = "credit"
	OpCancel     = "cancel"
	OpInput      = "input"
	OpCloseInput = "close-input"
	OpSignal     = "signal"
	OpStatus     = "status"
	OpStop       = "stop"
	OpLease      = "lease"
	OpProcesses  = "processes"
	OpSweep      = "sweep"
	OpTrim       = "trim"
	OpToolCalls  = "tool-calls"
	OpToolResult = "tool-result"
)

// Request is one line from a client. Args depends on the operation.
type Request struct {
	ID   uint64          `json:"id"`
	Op   string          `json:"op"`
	Args json.RawMessage `json:"args,omitempty"`
}

// Reply is one line to a client: an answer, or one record of a stream.
type Reply struct {
	ID     uint64          `json:"id"`
	Error  *Error          `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	// At, Next and Rec are a record and its offsets.
	At   int64           `json:"at,omitempty"`
	Next int64           `json:"next,omitempty"`
	Rec  json.RawMessage `json:"rec,omitempty"`
	// End closes a stream.
	End bool `json:"end,omitempty"`
}

// Error is an error on the wire; Code names a sentinel, or is empty.
type Error struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
}

// The arguments of the operations that have any.
type (
	// Hello is for OpHello.
	Hello struct {
		Token string `json:"token"`
		Epoch uint64 `json:"epoch"`
	}
	// Records is for OpRecords: Credit 0 means unbounded.
	Records struct {
		From   int64 `json:"from"`
		Credit int64 `json:"credit,omitempty"`
	}
	// Credit is for OpCredit; Stream is the id of the records request.
	Credit struct {
		Stream uint64 `json:"stream"`
		Bytes  int64  `json:"bytes"`
	}
	// Cancel is for OpCancel.
	Cancel struct {
		Stream uint64 `json:"stream"`
	}
	// Input is for OpInput.
	Input struct {
		Key  string `json:"key"`
		Data []byte `json:"data"`
	}
	// Signal is for OpSignal, by number.
	Signal struct {
		Signal int `json:"signal"`
	}
	// Lease is for OpLease: TTL in nanoseconds, 0 disarms. With Boot the TTL counts
	// from the client's boot-time clock Since, valid only on a machine with that boot
	// id; otherwise from arrival.
	Lease struct {
		TTL   int64  `json:"ttl"`
		Boot  string `json:"boot,omitempty"`
		Since int64  `json:"since,omitempty"`
	}
	// Trim is for OpTrim: segments wholly before Before may be deleted.
	Trim struct {
		Before int64 `json:"before"`
	}
	// ToolResult is for OpToolResult; Call is the id of the tool call.
	ToolResult struct {
		Call   string `json:"call"`
		Text   string `json:"text"`
		Failed bool   `json:"failed,omitempty"`
	}
)

// AppendRecord appends the line of one record to b, without decoding it; raw is
// the record's JSON without its line end. ParseReply relies on this exact form.
func AppendRecord(b []byte, id uint64, at, next int64, raw []byte) []byte {
	b = append(b, `{"id":`...)
	b = strconv.AppendUint(b, id, 10)
	b = append(b, `,"at":`...)
	b = strconv.AppendInt(b, at, 10)
	b = append(b, `,"next":`...)
	b = strconv.AppendInt(b, next, 10)
	b = append(b, `,"rec":`...)
	b = append(b, raw...)
	return append(b, '}', '\n')
}

// ParseReply reads one line. The result may share the line's memory.
func ParseReply(line []byte) (Reply, error) {
	if r, ok := parseRecord(line); ok {
		return r, nil
	}
	var r Reply
	if err := json.Unmarshal(line, &r); err != nil {
		return Reply{}, fmt.Errorf("malformed reply: %w", err)
	}
	return r, nil
}

// parseRecord is the fast path for AppendRecord's form, since a record's JSON
// would otherwise be scanned three times.
func parseRecord(line []byte) (Reply, bool) {
	var n [3]int64
	for i, key := range [...]string{`{"id":`, `,"at":`, `,"next":`} {
		rest, ok := bytes.CutPrefix(line, []byte(key))
		digits := bytes.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if !ok || digits <= 0 {
			return Reply{}, false
		}
		v, err := strconv.ParseInt(string(rest[:digits]), 10, 64)
		if err != nil {
			return Reply{}, false
		}
		n[i], line = v, rest[digits:]
	}
	rec, ok := bytes.CutPrefix(line, []byte(`,"rec":`))
	if !ok {
		return Reply{}, false
	}
	rec, ok = bytes.CutSuffix(bytes.TrimRight(rec, "\n"), []byte{'}'})
	return Reply{ID: uint64(n[0]), At: n[1], Next: n[2], Rec: rec}, ok
}

// ReadLine reads one line of any length, without its line end. The caller owns
// the result. A last line without line end is returned before io.EOF.
func ReadLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if errors.Is(err, io.EOF) && len(line) > 0 {
		return line, nil
	}
	if err != nil {
		return nil, err
	}
	return line[:len(line)-1], nil
}

// Line encodes v as one line.
func Line(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// Args decodes a request's arguments.
func Args[T any](r Request) (T, error) {
	var v T
	if len(r.Args) == 0 {
		return v, nil
	}
	if err := json.Unmarshal(r.Args, &v); err != nil {
		return v, fmt.Errorf("%s: malformed arguments: %w", r.Op, err)
	}
	return v, nil
}
