package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/claude"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/synth"
)

const (
	// parseRounds: the best one counts.
	parseRounds = 3
	// naiveMB bounds the size for the naive implementation, whose time grows with the
	// square of the size.
	naiveMB = 64
	// translatedTurns are about 60 000 native lines.
	translatedTurns = 400
)

// megabytes are the sizes of the transcripts.
var megabytes = []int{1, 4, 16, 64, 256}

// parse measures, on one core, parsing Claude's transcripts and translating its output.
func (b *bench) parse(ctx context.Context) ([]Figure, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	dir, err := os.MkdirTemp("", "sojourn-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var figures []Figure
	var smallest, speed float64
	for _, mb := range megabytes {
		size, path, err := transcriptOf(dir, mb)
		if err != nil {
			return nil, err
		}
		r, err := measureParsing(ctx, path, size, mb <= naiveMB)
		if err != nil {
			return nil, err
		}
		figures = append(figures, r.figures(mb)...)
		if speed = r.parsed; smallest == 0 {
			smallest = speed
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	figures = append(figures, Figure{Name: "parse at 256 MB : at 1 MB", Value: speed / smallest, Unit: "ratio"}.
		wants("within 20 %", math.Abs(speed/smallest-1) <= 0.2))
	translated, err := measureTranslating(ctx)
	return append(figures, translated...), err
}

func transcriptOf(dir string, mb int) (size int64, path string, err error) {
	path = filepath.Join(dir, fmt.Sprintf("%d.jsonl", mb))
	f, err := os.Create(path)
	if err != nil {
		return 0, "", err
	}
	if size, err = synth.Write(f, int64(mb)<<20); err != nil {
		return 0, "", err
	}
	return size, path, f.Close()
}

// parsing is the result for one size; speeds are in MB/s.
type parsing struct {
	parsed, folded, naive float64
	// factor is the peak of the heap while parsing and folding, divided by the heap of
	// the state.
	factor, state float64
}

func (p parsing) figures(mb int) []Figure {
	const is = "the same by the seeds' algorithm: whole file, split, JSON.parse, a new array per event (test/bench/naive_parse.go)"
	parsed := Figure{Name: fmt.Sprintf("parse, %d MB", mb), Value: p.parsed, Unit: "MB/s"}.wants("≥ 150 MB/s", p.parsed >= 150)
	folded := Figure{Name: fmt.Sprintf("parse and fold, %d MB", mb), Value: p.folded, Unit: "MB/s"}
	if p.naive > 0 {
		folded = folded.over(p.naive, is)
	}
	return []Figure{parsed, folded,
		Figure{Name: fmt.Sprintf("memory for it, %d MB", mb), Value: p.factor, Unit: "ratio"}.
			wants("< 4 × state", p.factor < 4).noted("the state takes %.0f MB of heap", p.state/1e6)}
}

func measureParsing(ctx context.Context, path string, size int64, withNaive bool) (p parsing, err error) {
	for range parseRounds {
		if err := ctx.Err(); err != nil {
			return p, err
		}
		p.parsed = max(p.parsed, megabytesPerSecond(size, func() { err = parseOnly(path) }))
		if err != nil {
			return p, err
		}
		p.folded = max(p.folded, megabytesPerSecond(size, func() { _, err = parseAndFold(path, nil) }))
		if err != nil {
			return p, err
		}
	}
	if withNaive {
		p.naive = rate(int(size), func() { _, err = naiveParse(path) }) / 1e6
	}
	if err == nil {
		p.factor, p.state, err = memoryFactor(path)
	}
	return p, err
}

// megabytesPerSecond repeats a small size up to a fixed number of bytes, so that its
// share of the garbage collector is counted too.
func megabytesPerSecond(size int64, do func()) float64 {
	times := max(1, atOnce/int(size))
	return rate(times*int(size), func() {
		for range times {
			do()
		}
	}) / 1e6
}

const atOnce = 64 << 20

func sourcesOf(path string) []adapters.Source {
	return []adapters.Source{{
		Transcript: adapters.Transcript{ID: event.Main, Path: path, Kind: adapters.Append},
		Open:       func() (io.ReadCloser, error) { return os.Open(path) },
	}}
}

func parseOnly(path string) error {
	for _, err := range claude.New().Parse(sourcesOf(path)) {
		if err != nil {
			return err
		}
	}
	return nil
}

// parseAndFold calls now every 64 events, unless it is nil.
func parseAndFold(path string, now func()) (reducer.State, error) {
	var b reducer.Builder
	n := 0
	for e, err := range claude.New().Parse(sourcesOf(path)) {
		if err != nil {
			return reducer.State{}, err
		}
		b.Add(e)
		if n++; now != nil && n%64 == 0 {
			now()
		}
	}
	return b.State(), nil
}

// memoryFactor divides the peak of the heap, garbage included, by the heap of the state
// alone.
func memoryFactor(path string) (factor, state float64, err error) {
	debug.FreeOSMemory()
	before, peak := heap(), 0.0
	s, err := parseAndFold(path, func() { peak = max(peak, heap()) })
	if err != nil {
		return 0, 0, err
	}
	peak = max(peak, heap())
	debug.FreeOSMemory()
	state = heap() - before
	runtime.KeepAlive(s)
	return (peak - before) / state, state, nil
}

// heap returns the bytes of all objects, including garbage that is not freed yet.
func heap() float64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return float64(sample[0].Value.Uint64())
}

func measureTranslating(ctx context.Context) ([]Figure, error) {
	records := synth.Records(translatedTurns)
	var ours, naive float64
	for range parseRounds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		tr, err := claude.New().Translator(adapters.Launch{}, nil)
		if err != nil {
			return nil, err
		}
		ours = max(ours, rate(len(records), func() {
			for _, r := range records {
				tr.Step(r)
			}
		}))
		naive = max(naive, rate(len(records), func() { err = naiveTranslate(records) }))
		if err != nil {
			return nil, err
		}
	}
	return []Figure{Figure{Name: "translate", Value: ours, Unit: "lines/s"}.
		over(naive, "JSON.parse of each line, and one object per event (test/bench/naive_parse.go)").
		wants("> 200 k/s", ours > 200e3)}, nil
}
