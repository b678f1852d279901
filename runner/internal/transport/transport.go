// Package transport is how a supervisor talks to its agent process: [Stdio]
// is lines over the process's stdin and stdout, [HTTP] is requests to a server
// that the process runs, and one stream of server-sent events from it.
//
// A transport does not interpret the content. It turns the agent's output into
// records and passes it the inputs, in order, and ends when the process has:
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
	"github.com/sojourn-run/sojourn/event/traffic"
)

// Host is the supervisor around a transport. Its functions may be called
// concurrently.
type Host struct {
	// Keep spools records, in order and together.
	Keep func(records ...traffic.Record)
	// Inputs yields the agent's inputs in order: whole lines. It waits for more, and
	// ends after the last, at the latest when the process has ended. An input counts
	// as queued until the next one is requested. One consumer.
	Inputs func() iter.Seq[[]byte]
	// Fail ends an agent that the transport cannot serve.
	Fail func(error)
	// MaxLine is how many bytes of a line are kept; a longer one is cut while it is
	// read. Default: [jsonl.DefaultMaxLine].
	MaxLine int
}

// Pipes are the supervisor's ends of the process's stdio. Serve closes them.
type Pipes struct {
	Stdin          io.WriteCloser
	Stdout, Stderr io.ReadCloser
}

// readSize is how much is read at once.
const readSize = 64 << 10

// pump records a stream line by line, and closes its end. With watch, each line
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

// keep spools lines that were read together.
func (h Host) keep(dir event.Dir, lines []line) {
	if len(lines) == 0 {
		return
	}
	records, now := make([]traffic.Record, len(lines)), time.Now().UTC()
	for i, l := range lines {
		records[i] = traffic.Record{TS: now, Dir: dir, Line: l.text, Cut: l.cut}
	}
	h.Keep(records...)
}
