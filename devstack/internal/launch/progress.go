package launch

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress writes what a slow start is doing. It writes nothing in the first two
// seconds, so a normal start is silent.
type Progress struct {
	w     io.Writer
	begun time.Time
	done  chan struct{}
	ended sync.WaitGroup
	once  sync.Once

	// mu guards step, which Step sets and the ticker's goroutine reads.
	mu   sync.Mutex
	step string
}

// patience is how long a start may take before a message, and the time between
// further messages.
const patience = 2 * time.Second

// StartProgress starts to watch. Stop must be called.
func StartProgress(w io.Writer) *Progress {
	p := &Progress{w: w, begun: time.Now(), done: make(chan struct{})}
	p.ended.Go(p.watch)
	return p
}

// Step sets what is being started now.
func (p *Progress) Step(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step = name
}

// Stop ends the watch and returns when nothing more will be written. Calling it
// again is harmless.
func (p *Progress) Stop() {
	p.once.Do(func() { close(p.done) })
	p.ended.Wait()
}

func (p *Progress) watch() {
	ticker := time.NewTicker(patience)
	defer ticker.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-ticker.C:
			p.say()
		}
	}
}

func (p *Progress) say() {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, "%s: starting %s (%.0f s)\n", Program, p.step, time.Since(p.begun).Seconds())
}
