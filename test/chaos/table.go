package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Row is the result for one kind of kill.
type Row struct {
	Kind Kind `json:"kind"`
	// Kills is the number done, Accepted the number of turns that met one and none
	// harder.
	Kills    int `json:"kills"`
	Accepted int `json:"accepted"`
	Answered int `json:"answered"`
	// Failed turns have a named failure in the conversation.
	Failed int `json:"failed"`
	// Extra is the number of model requests beyond those of the undisturbed run. Where
	// the agent survives they are faults too.
	Extra  int           `json:"extra"`
	Faults map[Fault]int `json:"faults,omitempty"`
	// Pauses of subscribers, from a kill to the first event of the next attempt.
	Pauses []time.Duration `json:"pauses,omitempty"`
}

// Report is the result of a run or a sweep.
type Report struct {
	Title    string        `json:"title"`
	Command  string        `json:"command"`
	Seed     uint64        `json:"seed"`
	Machine  string        `json:"machine"`
	At       time.Time     `json:"at"`
	Took     time.Duration `json:"took"`
	Sessions int           `json:"sessions"`
	Rows     []Row         `json:"rows"`
	Findings []Finding     `json:"findings,omitempty"`
	// Notes are what a reader should know, such as kills that met nothing.
	Notes []string `json:"notes,omitempty"`
}

// Good reports whether there are no findings.
func (r Report) Good() bool { return len(r.Findings) == 0 }

// rows returns one row per kind.
func rows(done map[Kind]int, verdicts []verdict, found []Finding) []Row {
	byKind := map[Kind]*Row{}
	row := func(k Kind) *Row {
		if byKind[k] == nil {
			byKind[k] = &Row{Kind: k, Faults: map[Fault]int{}}
		}
		return byKind[k]
	}
	for k, n := range done {
		row(k).Kills += n
	}
	for _, v := range verdicts {
		one := row(v.kind)
		one.Accepted++
		one.Extra += v.extra
		if v.answered {
			one.Answered++
		}
		if v.failed {
			one.Failed++
		}
		for _, p := range v.pauses {
			row(p.kind).Pauses = append(row(p.kind).Pauses, p.took)
		}
	}
	for _, f := range found {
		row(f.Kind).Faults[f.Fault]++
	}
	var out []Row
	for _, k := range kinds {
		if r := byKind[k]; r != nil {
			slices.Sort(r.Pauses)
			out = append(out, *r)
		}
	}
	return append(out, total(out))
}

func total(all []Row) Row {
	t := Row{Kind: "all", Faults: map[Fault]int{}}
	for _, r := range all {
		t.Kills += r.Kills
		t.Accepted += r.Accepted
		t.Answered += r.Answered
		t.Failed += r.Failed
		t.Extra += r.Extra
		for f, n := range r.Faults {
			t.Faults[f] += n
		}
	}
	return t
}

// quantile returns the q-quantile of sorted durations, 0 for none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Write writes the table, and the findings below it.
func (r Report) Write(w io.Writer) error {
	fmt.Fprintf(w, "%s: seed %d, %d sessions, %s, on %s, %s\n\n", r.Title, r.Seed, r.Sessions, r.Took.Round(time.Second), r.Machine, r.At.Format(time.DateOnly))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "kill\tkills\taccepted\tanswered\tfailed by name\textra requests\t")
	for _, f := range faults {
		if f != Extra {
			fmt.Fprintf(t, "%s\t", f)
		}
	}
	fmt.Fprintln(t, "pause p50\tp95\tmax\t")
	for _, row := range r.Rows {
		row.write(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	if r.Good() {
		_, err := fmt.Fprintln(w, "\nnothing was lost, repeated, torn or left")
		return err
	}
	fmt.Fprintf(w, "\n%d findings:\n", len(r.Findings))
	for _, f := range r.Findings {
		fmt.Fprintf(w, "  %s\n", f)
	}
	_, err := fmt.Fprintf(w, "again: %s\n", r.Command)
	return err
}

func (r Row) write(w io.Writer) {
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t", r.Kind, r.Kills, r.Accepted, r.Answered, r.Failed, r.Extra)
	for _, f := range faults {
		if f != Extra {
			fmt.Fprintf(w, "%d\t", r.Faults[f])
		}
	}
	if len(r.Pauses) == 0 {
		fmt.Fprintln(w, "\t\t\t")
		return
	}
	slices.Sort(r.Pauses)
	fmt.Fprintf(w, "%s\t%s\t%s\t\n", seconds(quantile(r.Pauses, 0.5)), seconds(quantile(r.Pauses, 0.95)), seconds(r.Pauses[len(r.Pauses)-1]))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// WriteJSON writes the report as one JSON value; durations are nanoseconds.
func (r Report) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }
