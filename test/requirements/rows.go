package requirements

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed rows.json
var stored []byte

// Row is one requirement.
type Row struct {
	Number int `json:"row"`
	// Group is the heading that the row is listed under.
	Group string `json:"group"`
	// Name is the capability in a few words.
	Name string `json:"name"`
	// Text is the requirement: the exact semantics, in Markdown.
	Text   string `json:"text"`
	Status Status `json:"status"`
	// Missing is what is missing for a row that is not done. Required with Part,
	// optional with Open.
	Missing string `json:"missing,omitempty"`
	// Decision is the decision by which the row is done in another way or not at all:
	// the name of its file in docs/decisions, such as 0011-snapshot. Required with
	// Decided.
	Decision string `json:"decision,omitempty"`
}

// Status is how much of a row holds.
type Status string

const (
	// Done: the row's sentence holds, and a test asserts it.
	Done Status = "done"
	// Part: some of it holds, or its test asserts less than the sentence.
	Part Status = "part"
	// Open: it does not hold.
	Open Status = "open"
	// Decided: a decision explains the deviation; a test may assert what there is
	// instead.
	Decided Status = "decision"
)

// Rows returns all rows in order, or the first fault of rows.json.
func Rows() ([]Row, error) { return parse(stored) }

func parse(data []byte) ([]Row, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var rows []Row
	if err := dec.Decode(&rows); err != nil {
		return nil, fmt.Errorf("rows.json: %w", err)
	}
	for i, r := range rows {
		if r.Number != i+1 {
			return nil, fmt.Errorf("rows.json: row %d is where row %d is expected", r.Number, i+1)
		}
		if err := r.validate(); err != nil {
			return nil, fmt.Errorf("rows.json: row %d: %w", r.Number, err)
		}
	}
	return rows, nil
}

func (r Row) validate() error {
	if r.Group == "" || r.Name == "" || r.Text == "" {
		return fmt.Errorf("group, name and text are required")
	}
	if r.Status == Part && r.Missing == "" {
		return fmt.Errorf("is in part and does not say what is missing")
	}
	if r.Missing != "" && r.Status != Part && r.Status != Open {
		return fmt.Errorf("misses something and is neither in part nor open")
	}
	if (r.Status == Decided) != (r.Decision != "") {
		return fmt.Errorf("the status %s and a decision belong together", Decided)
	}
	switch r.Status {
	case Done, Part, Open, Decided:
		return nil
	}
	return fmt.Errorf("status %q, not one of %s, %s, %s, %s", r.Status, Done, Part, Open, Decided)
}
