// Package transport is how a supervisor talks to its agent process: [Stdio]
// is lines over the process's stdin and stdout, [HTTP] is requests to a server
// that the process runs, and one stream of server-sent events from it.
//
// A transport knows nothing of what is said. It turns what the agent says into
// records and hands it the inputs, in order, and ends when the process has:
//
//	link := transport.NewHTTP(spec.HTTP, dial)
//	env = append(env, link.Env()...)
//	// start the process, then
//	link.Serve(transport.Host{Keep: …, Inputs: …, Fail: …}, pipes, gone)
package transport

import (
	"io"
	"iter"
	"time"

	"github.com/sojourn-run/sojourn/event"
)

// Host is the supervisor around a transport. Its functions may be called
// concurrently.
type Host struct {
	// Keep spools records, in order and together.
	Keep func(records ...event.Record)
	// Inputs yields what the agent is to be handed, in order: whole lines. It
	// waits for more, and ends when there will be none, at the latest when
	// the process is gone. An input counts as waiting until the next one is
	// asked for. One consumer.
	Inputs func() iter.Seq[[]byte]
	// Fail ends an agent that the transport cannot serve.
	Fail func(error)
	// MaxLine is how many bytes of a line are kept; what is longer is cut while
	// it is read. Default: [jsonl.DefaultMaxLine].
	MaxLine int
}

// Pipes are the supervisor's ends of the process's stdio. Serve closes them.
type Pipes struct {
	Stdin          io.WriteCloser
	Stdout, Stderr io.ReadCloser
}

// readSize is how much is read at once.
const readSize = 64 << 10

// pump keeps what comes, line by line, and closes its end. With watch, each line
// goes through it first.
func (h Host) pump(from io.ReadCloser, dir event.Dir, watch func(line string) string) {
	defer from.Close()
	lines := splitter{max: h.MaxLine}
	buf := make([]byte, readSize)
	for {
		n, err := from.Read(buf)
		found := lines.cut(buf[:n])
		if err != nil {
			found = append(found, lines.rest()...)
		}
		if watch != nil {
			for i := range found {
				found[i].text = watch(found[i].text)
			}
		}
		h.keep(dir, found)
		if err != nil {
			return
		}
	}
}

// keep spools lines that came together.
func (h Host) keep(dir event.Dir, lines []line) {
	if len(lines) == 0 {
		return
	}
	records, now := make([]event.Record, len(lines)), time.Now().UTC()
	for i, l := range lines {
		records[i] = event.Record{TS: now, Dir: dir, Line: l.text, Cut: l.cut}
	}
	h.Keep(records...)
}
