package starter

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// faults prints what is broken in the input, one line each, while the rest is
// processed.
type faults struct {
	c     *cli
	count int
	// hint is what to do. Default: where the good part is.
	hint string
}

// maxFaults bounds what is printed: a file of another kind has a fault in each
// line.
const maxFaults = 20

func (c *cli) faults() *faults { return &faults{c: c} }

func (f *faults) add(err error) {
	f.count++
	if f.count <= maxFaults {
		fmt.Fprintf(f.c.stderr, "sojourn: %s\n", oneLine(err.Error()))
	}
}

// at adds a fault in a line of a file.
func (f *faults) at(file string, line int, format string, args ...any) {
	f.add(fmt.Errorf("%s:%d: %s", file, line, fmt.Sprintf(format, args...)))
}

// err returns the failure of the command, or nil if nothing was broken.
func (f *faults) err() error {
	if f.count == 0 {
		return nil
	}
	if more := f.count - maxFaults; more > 0 {
		fmt.Fprintf(f.c.stderr, "sojourn: and %d more\n", more)
	}
	fmt.Fprintf(f.c.stderr, "sojourn: hint: %s\n", cmp.Or(f.hint, "what could be read is on standard output"))
	return errReported
}

// place converts an error about a line of a transcript to the form that editors
// can follow. Adapters name the line after the transcript's path.
func place(err error, sources []adapters.Source) error {
	said, path := err.Error(), ""
	var number int
	var rest string
	for _, s := range sources {
		_, behind, found := strings.Cut(said, s.Path+": line ")
		at, what, _ := strings.Cut(behind, ": ")
		if n, bad := strconv.Atoi(at); found && bad == nil && len(s.Path) > len(path) {
			path, number, rest = s.Path, n, what
		}
	}
	if path == "" {
		return err
	}
	return fmt.Errorf("%s:%d: %s", path, number, rest)
}

// onStdin sets standard input as the file of a broken line.
func onStdin(err error) error {
	if at, ok := strings.CutPrefix(err.Error(), "line "); ok {
		return fmt.Errorf("stdin:%s", at)
	}
	return err
}

// heed counts the known and unknown parts that a reader read: if it knew none, it
// was given what is not for it.
type heed struct{ known, foreign int }

func (h *heed) add(e event.Event) {
	switch e.Payload.(type) {
	case event.Native:
		h.foreign++
	case event.Log, event.Error, event.Status, event.SessionIdle, event.QueryStarted, event.QueryCompleted, event.QueryFailed, event.QueryInterrupted:
		// Emitted for any process and at the end of any file.
	default:
		h.known++
	}
}

func (h *heed) stranger() bool { return h.known == 0 && h.foreign > 0 }
