package activities

import (
	"context"
	"sync"
)

// Places counts the sandboxes that a host holds against how many it may hold.
// A host asks for new sandboxes only while it has a place, so that a session
// goes where there is room. Safe for concurrent use.
type Places struct {
	capacity int

	mu       sync.Mutex
	reserved int
	held     map[string]bool
	changed  chan struct{}
}

// NewPlaces makes the count; held are the sandboxes that stand already.
func NewPlaces(capacity int, held ...string) *Places {
	p := &Places{capacity: capacity, held: map[string]bool{}, changed: make(chan struct{})}
	for _, id := range held {
		p.held[id] = true
	}
	return p
}

// Capacity is how many sandboxes the host may hold.
func (p *Places) Capacity() int { return p.capacity }

// Reserve waits for a place and sets it aside until Release.
func (p *Places) Reserve(ctx context.Context) error {
	for {
		p.mu.Lock()
		if p.reserveLocked() {
			p.mu.Unlock()
			return nil
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TryReserve is Reserve without the wait.
func (p *Places) TryReserve() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reserveLocked()
}

func (p *Places) reserveLocked() bool {
	if len(p.held)+p.reserved >= p.capacity {
		return false
	}
	p.reserved++
	return true
}

// Release gives a reservation back; a sandbox that was made under it is held
// in its own name by then.
func (p *Places) Release() {
	p.change(func() { p.reserved-- })
}

func (p *Places) hold(id string) { p.change(func() { p.held[id] = true }) }
func (p *Places) free(id string) { p.change(func() { delete(p.held, id) }) }

func (p *Places) change(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
	close(p.changed)
	p.changed = make(chan struct{})
}
