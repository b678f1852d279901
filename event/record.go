package event

import (
	"encoding/json"
	"fmt"
	"time"
)

// Dir says which way a native record went.
type Dir string

const (
	// DirIn is what was written to the agent.
	DirIn Dir = "in"
	// DirOut is a line of the agent's output, or an SSE event's data.
	DirOut Dir = "out"
	// DirErr is a line of the agent's standard error.
	DirErr Dir = "err"
	// DirSig is something that happened to the process: "start", "exit 0",
	// "signal killed".
	DirSig Dir = "sig"
)

// Record is one line of an agent's native traffic, without its line end.
type Record struct {
	TS   time.Time `json:"ts"`
	Dir  Dir       `json:"dir"`
	Line string    `json:"line"`
}

// UnmarshalJSON takes ts as RFC 3339 text or Unix milliseconds, and "ms"
// (milliseconds since the start of a recording) in its place.
func (r *Record) UnmarshalJSON(data []byte) error {
	var w struct {
		TS   json.RawMessage `json:"ts"`
		MS   *float64        `json:"ms"`
		Dir  Dir             `json:"dir"`
		Line *string         `json:"line"`
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if w.Line == nil {
		return fmt.Errorf("record: field \"line\" is missing")
	}
	switch w.Dir {
	case DirIn, DirOut, DirErr, DirSig:
	default:
		return fmt.Errorf("record: field \"dir\" is %q, want in, out, err or sig", w.Dir)
	}
	ts, err := recordTime(w.TS, w.MS)
	if err != nil {
		return err
	}
	*r = Record{TS: ts, Dir: w.Dir, Line: *w.Line}
	return nil
}

func recordTime(ts json.RawMessage, ms *float64) (time.Time, error) {
	if len(ts) == 0 || string(ts) == "null" {
		if ms == nil {
			return time.Time{}, nil
		}
		return time.UnixMilli(0).Add(time.Duration(*ms * float64(time.Millisecond))).UTC(), nil
	}
	if ts[0] == '"' {
		var t time.Time
		if err := json.Unmarshal(ts, &t); err != nil {
			return time.Time{}, fmt.Errorf("record: field \"ts\": %w", err)
		}
		return t.UTC(), nil
	}
	var n float64
	if err := json.Unmarshal(ts, &n); err != nil {
		return time.Time{}, fmt.Errorf("record: field \"ts\": %w", err)
	}
	return time.UnixMilli(0).Add(time.Duration(n * float64(time.Millisecond))).UTC(), nil
}
