package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is the result of a run.
type Report struct {
	Machine Machine   `json:"machine"`
	At      time.Time `json:"at"`
	// Seconds is the duration of the run.
	Seconds float64  `json:"seconds"`
	Figures []Figure `json:"figures"`
}

// Machine describes the machine.
type Machine struct {
	Cores int    `json:"cores"`
	CPU   string `json:"cpu"`
	OS    string `json:"os"`
	Go    string `json:"go"`
	// Load is the load average of the last 1, 5 and 15 minutes at the end of the run.
	// If it is high from the beginning, other programs were busy too.
	Load string `json:"load"`
}

// Figure is one measured number with its floor and target.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	// Unit is deltas/s, lines/s, jobs/s, MB/s, s, bytes, events, requests or ratio; it decides how the table
	// shows the numbers.
	Unit string `json:"unit"`
	// Floor is what the bare parts cost in the same run; FloorIs names them.
	Floor   *float64 `json:"floor,omitempty"`
	FloorIs string   `json:"floorIs,omitempty"`
	// Ratio is value divided by floor.
	Ratio *float64 `json:"ratio,omitempty"`
	// Target is the target; "" for a figure without one.
	Target string `json:"target,omitempty"`
	Met    *bool  `json:"met,omitempty"`
	Note   string `json:"note,omitempty"`
}

// over sets the floor.
func (f Figure) over(floor float64, is string) Figure {
	ratio := f.Value / floor
	f.Floor, f.FloorIs, f.Ratio = &floor, is, &ratio
	return f
}

// wants sets the target and whether it is met.
func (f Figure) wants(target string, met bool) Figure {
	f.Target, f.Met = target, &met
	return f
}

func (f Figure) noted(format string, args ...any) Figure {
	f.Note = fmt.Sprintf(format, args...)
	return f
}

func thisMachine() Machine {
	return Machine{
		Cores: runtime.NumCPU(), CPU: cpuModel(), OS: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), Load: loadAverage(),
	}
}

func write(w io.Writer, r Report, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	return writeTable(w, r)
}

func writeTable(w io.Writer, r Report) error {
	fmt.Fprintf(w, "\n%d cores, %s, %s, %s; load %s; %s, %.0f s\n\n", r.Machine.Cores, r.Machine.CPU, r.Machine.OS,
		r.Machine.Go, r.Machine.Load, r.At.UTC().Format("2006-01-02 15:04 MST"), r.Seconds)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "figure\tmeasured\tfloor\tratio\ttarget\tmet")
	fmt.Fprintln(table, "------\t--------\t-----\t-----\t------\t---")
	for _, f := range r.Figures {
		fmt.Fprintln(table, strings.Join(f.cells(), "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return writeNotes(w, r.Figures)
}

// cells returns a row of the table.
func (f Figure) cells() []string {
	floor, ratio, met := "", "", ""
	if f.Floor != nil {
		floor = show(*f.Floor, f.Unit)
	}
	if f.Ratio != nil {
		ratio = fmt.Sprintf("%.2f", *f.Ratio)
		if *f.Ratio < 0.1 {
			ratio = fmt.Sprintf("1/%.0f", 1 / *f.Ratio)
		}
	}
	if f.Met != nil {
		met = map[bool]string{true: "yes", false: "no"}[*f.Met]
	}
	return []string{f.Name, show(f.Value, f.Unit), floor, ratio, f.Target, met}
}

// writeNotes writes what the floors are, each once, and the other notes.
func writeNotes(w io.Writer, figures []Figure) error {
	floor := ""
	for _, f := range figures {
		var said []string
		if f.FloorIs != "" && f.FloorIs != floor {
			floor = f.FloorIs
			said = append(said, "floor: "+f.FloorIs)
		}
		if f.Note != "" {
			said = append(said, f.Note)
		}
		if len(said) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", f.Name, strings.Join(said, "; ")); err != nil {
			return err
		}
	}
	return nil
}

// show formats a number in a readable form of its unit.
func show(v float64, unit string) string {
	switch unit {
	case "deltas/s", "lines/s":
		switch {
		case v >= 1e6:
			return fmt.Sprintf("%.1f M/s", v/1e6)
		case v >= 1e3:
			return fmt.Sprintf("%.1f k/s", v/1e3)
		}
		return fmt.Sprintf("%.0f /s", v)
	case "s":
		if v < 1 {
			return fmt.Sprintf("%.2f ms", v*1e3)
		}
		return fmt.Sprintf("%.2f s", v)
	case "bytes":
		if v < 1e6 {
			return fmt.Sprintf("%.1f kB", v/1e3)
		}
		return fmt.Sprintf("%.0f MB", v/1e6)
	case "jobs/s":
		return fmt.Sprintf("%.2f /s", v)
	case "requests":
		return fmt.Sprintf("%.1f", v)
	case "ratio":
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.0f %s", v, unit)
}
