package harness

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/runner"
)

// A Beat is one line of a beat file: a tool of a session was alive in an epoch.
type Beat struct {
	Session string
	// Epoch is the epoch of the sandbox in which the tool ran.
	Epoch uint64
	// Kind is start, beat or end.
	Kind string
	// PID is the tool's process id, in its PID namespace.
	PID int
	// At is CLOCK_BOOTTIME, read just before the line was written.
	At time.Duration
}

// BeatEvery is the interval at which a tool writes a beat. Twenty tools with a fifth of it
// took a slow machine's processors, and healthy hosts lost their leases.
const BeatEvery = 50 * time.Millisecond

// WriteBeats is the tool whose lifetime is verified. It appends a start, a beat every
// [BeatEvery], and an end to a file that all tools write to, until a file with that
// name and the suffix ".end" exists. It takes the session and epoch from the mark of
// the sandbox in which it runs.
func WriteBeats(path string) error {
	session, epoch, err := sandboxOf(os.Getenv(runner.MarkEnv))
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("write beats: %w", err)
	}
	defer f.Close()
	kind := "start"
	for {
		// One write appends one whole line, also when other processes append.
		if _, err := fmt.Fprintf(f, "%s %d %s %d %d\n", session, epoch, kind, os.Getpid(), runner.BootTime().At); err != nil {
			return fmt.Errorf("write beats: %w", err)
		}
		if kind == "end" {
			return nil
		}
		kind = "beat"
		if _, err := os.Stat(path + ".end"); !errors.Is(err, fs.ErrNotExist) {
			kind = "end"
		}
		time.Sleep(BeatEvery)
	}
}

// sandboxOf parses the mark of a sandbox's processes.
func sandboxOf(mark string) (session string, epoch uint64, err error) {
	id := filepath.Base(mark)
	i := strings.LastIndex(id, "-e")
	if i < 0 {
		return "", 0, fmt.Errorf("write beats: %s=%q is no sandbox with an epoch", runner.MarkEnv, mark)
	}
	if _, err := fmt.Sscanf(id[i:], "-e%d", &epoch); err != nil {
		return "", 0, fmt.Errorf("write beats: %s=%q is no sandbox with an epoch: %w", runner.MarkEnv, mark, err)
	}
	return id[:i], epoch, nil
}

// ReadBeats reads a beat file, in the order of its lines. A last line without a newline
// is still being written and is left out.
func ReadBeats(r io.Reader) ([]Beat, error) {
	var all []Beat
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read beats: %w", err)
		}
		b, err := parseBeat(strings.Fields(line))
		if err != nil {
			return nil, fmt.Errorf("read beats: line %d, %q: %w", len(all)+1, line, err)
		}
		all = append(all, b)
	}
}

func parseBeat(words []string) (Beat, error) {
	if len(words) != 5 {
		return Beat{}, errors.New("want five words")
	}
	epoch, err1 := strconv.ParseUint(words[1], 10, 64)
	pid, err2 := strconv.Atoi(words[3])
	at, err3 := strconv.ParseInt(words[4], 10, 64)
	return Beat{Session: words[0], Epoch: epoch, Kind: words[2], PID: pid, At: time.Duration(at)}, errors.Join(err1, err2, err3)
}

// Verdict is the result of Judge.
type Verdict struct {
	// Sessions is the number of sessions that wrote.
	Sessions int
	// Overlaps names each pair of epochs that were alive at the same time.
	Overlaps []string
	// Handovers is how many times an epoch followed another one; Longest is the longest
	// time between two epochs.
	Handovers int
	Longest   time.Duration
}

// span is the lifetime of one epoch of a session, by the clock and by the lines of the
// file. A tool may be stopped between reading the clock and writing; then only the line
// numbers show the overlap.
type span struct {
	epoch             uint64
	first, last       time.Duration
	firstLine, toLine int
}

// Judge reports where two epochs of one session were alive at the same time. It counts
// what any process of an epoch wrote.
func Judge(beats []Beat) Verdict {
	bySession := map[string]map[uint64]*span{}
	for line, b := range beats {
		spans := bySession[b.Session]
		if spans == nil {
			spans = map[uint64]*span{}
			bySession[b.Session] = spans
		}
		s := spans[b.Epoch]
		if s == nil {
			s = &span{epoch: b.Epoch, first: b.At, last: b.At, firstLine: line}
			spans[b.Epoch] = s
		}
		s.first, s.last, s.toLine = min(s.first, b.At), max(s.last, b.At), line
	}
	v := Verdict{Sessions: len(bySession)}
	for session, spans := range bySession {
		v.judge(session, spans)
	}
	slices.Sort(v.Overlaps)
	return v
}

func (v *Verdict) judge(session string, spans map[uint64]*span) {
	var order []*span
	for _, s := range spans {
		order = append(order, s)
	}
	slices.SortFunc(order, func(a, b *span) int { return cmp.Compare(a.epoch, b.epoch) })
	for i, s := range order {
		if i > 0 {
			v.Handovers++
			v.Longest = max(v.Longest, s.first-order[i-1].last)
		}
		for _, before := range order[:i] {
			if s.first <= before.last || s.firstLine <= before.toLine {
				v.Overlaps = append(v.Overlaps, fmt.Sprintf("session %s: epoch %d wrote until %v (line %d), epoch %d from %v (line %d)",
					session, before.epoch, before.last, before.toLine+1, s.epoch, s.first, s.firstLine+1))
			}
		}
	}
}
