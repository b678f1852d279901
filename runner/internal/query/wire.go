package query

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Query is a line of the client.
type Query struct {
	SQL  string  `json:"sql"`
	Args []Value `json:"args,omitempty"`
}

// Answer is a line of the server: first the columns, then the rows, then the end,
// which may be an error.
type Answer struct {
	Columns []string `json:"columns,omitempty"`
	Row     []Value  `json:"row,omitempty"`
	End     bool     `json:"end,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// Value is nil, an int64, a float64, a string or []byte. Its JSON distinguishes
// them.
type Value struct{ V any }

type typed struct {
	Integer *string `json:"i,omitempty"`
	Real    *string `json:"r,omitempty"`
	Blob    *string `json:"b,omitempty"`
}

// MarshalJSON writes a string as a JSON string, if it is text.
func (v Value) MarshalJSON() ([]byte, error) {
	var t typed
	switch x := v.V.(type) {
	case nil:
		return []byte("null"), nil
	case string:
		return json.Marshal(x)
	case int64:
		s := strconv.FormatInt(x, 10)
		t.Integer = &s
	case float64:
		s := strconv.FormatFloat(x, 'g', -1, 64)
		t.Real = &s
	case []byte:
		s := base64.StdEncoding.EncodeToString(x)
		t.Blob = &s
	case time.Time: // the driver makes one for some columns
		return json.Marshal(x)
	default:
		return nil, fmt.Errorf("a column holds %T", x)
	}
	return json.Marshal(t)
}

// UnmarshalJSON reads the form of MarshalJSON.
func (v *Value) UnmarshalJSON(data []byte) (err error) {
	v.V = nil
	if string(data) == "null" {
		return nil
	}
	if data[0] == '"' {
		var s string
		err = json.Unmarshal(data, &s)
		v.V = s
		return err
	}
	var t typed
	if err = json.Unmarshal(data, &t); err != nil {
		return err
	}
	switch {
	case t.Integer != nil:
		v.V, err = strconv.ParseInt(*t.Integer, 10, 64)
	case t.Real != nil:
		v.V, err = parseReal(*t.Real)
	case t.Blob != nil:
		v.V, err = base64.StdEncoding.DecodeString(*t.Blob)
	}
	return err
}

func parseReal(s string) (float64, error) {
	if s == "NaN" {
		return math.NaN(), nil
	}
	return strconv.ParseFloat(s, 64)
}
