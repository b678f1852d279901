package supervisor

import (
	"bytes"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/runner"
)

// maxBacklog is how many bytes may be queued for an agent that does not read.
const maxBacklog = 256 << 20

// input passes inputs to the agent, each id once, in order, without blocking the
// sender until the agent reads.
type input struct {
	s       *Supervisor
	journal *journal

	mu      sync.Mutex
	queue   [][]byte
	waiting int
	closed  bool // no further inputs
	more    chan struct{}
}

func newInput(s *Supervisor) (*input, error) {
	j, err := openJournal(s.spec.Control)
	if err != nil {
		return nil, err
	}
	return &input{s: s, journal: j, more: make(chan struct{}, 1)}, nil
}

// accept writes an input and its id to disk and queues it for the agent.
func (in *input) accept(key string, data []byte, epoch uint64) (runner.Ack, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if e, known := in.journal.known[key]; known {
		gone := e.Start != in.s.restarts() || in.s.processTree.exitedAgent()
		return runner.Ack{Duplicate: true, Gone: gone, Offset: e.At, Next: e.Next}, nil
	}
	if err := in.refuse(len(data)); err != nil {
		return runner.Ack{}, err
	}
	if !bytes.HasSuffix(data, []byte{'\n'}) {
		data = append(data, '\n')
	}
	// First the bytes, then the id that makes them count, then the agent.
	at, next, err := in.s.spool.Append(inputRecords(data)...)
	if err == nil {
		err = in.journal.add(entry{Key: key, At: at, Next: next, Start: in.s.restarts(), Epoch: epoch})
	}
	if err != nil {
		in.s.fault(err)
		return runner.Ack{}, err
	}
	in.queue = append(in.queue, data)
	in.waiting += len(data)
	in.wake()
	return runner.Ack{Offset: at, Next: next}, nil
}

func (in *input) refuse(n int) error {
	switch {
	case in.s.processTree.exitedAgent():
		return runner.ErrExited
	case in.closed:
		return runner.ErrStdinClosed
	case in.waiting > 0 && in.waiting+n > maxBacklog:
		return fmt.Errorf("%d bytes wait: %w", in.waiting, runner.ErrBacklog)
	}
	return nil
}

func inputRecords(data []byte) []traffic.Record {
	var out []traffic.Record
	now := time.Now().UTC()
	for line := range strings.Lines(string(data)) {
		out = append(out, traffic.Record{TS: now, Dir: event.DirIn, Line: strings.TrimSuffix(line, "\n")})
	}
	return out
}

// close lets the agent's input end after what is queued.
func (in *input) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.wake()
}

// drop ends the agent's input at once: queued inputs are discarded.
func (in *input) drop() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, data := range in.queue {
		in.waiting -= len(data)
	}
	in.closed, in.queue = true, nil
	in.wake()
}

func (in *input) wake() {
	select {
	case in.more <- struct{}{}:
	default:
	}
}

// take returns the next bytes to write, or ok false after the last.
func (in *input) take() (data []byte, ok bool) {
	for {
		in.mu.Lock()
		if len(in.queue) > 0 {
			data, in.queue = in.queue[0], in.queue[1:]
			in.mu.Unlock()
			return data, true
		}
		closed := in.closed
		in.mu.Unlock()
		if closed {
			return nil, false
		}
		<-in.more
	}
}

// all yields the inputs to the transport until the last one.
func (in *input) all() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for {
			data, ok := in.take()
			if !ok || !yield(data) {
				return
			}
			in.mu.Lock()
			in.waiting -= len(data)
			in.mu.Unlock()
		}
	}
}
