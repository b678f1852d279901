package activities

import (
	"context"
	"sync"
	"time"
)

// Places counts the sandboxes that a host holds against how many it may hold.
// A host asks for new sandboxes only while it has a free place, or an idle
// sandbox that can give way. Safe for concurrent use.
type Places struct {
	capacity int

	mu sync.Mutex
	// reserved are the tasks of the create queue that the host has or asks for;
	// claimed are those of them that have a place and no sandbox yet.
	reserved, claimed int
	held              map[string]bool
	// idle is since when a held sandbox has had nothing to do; one that is not in
	// it doesn't give way.
	idle    map[string]time.Time
	changed chan struct{}
}

// NewPlaces makes the count. held are the sandboxes that exist already; they
// count as idle, the longest of all, until a turn runs in them.
func NewPlaces(capacity int, held ...string) *Places {
	p := &Places{capacity: capacity, held: map[string]bool{}, idle: map[string]time.Time{}, changed: make(chan struct{})}
	for _, id := range held {
		p.held[id], p.idle[id] = true, time.Time{}
	}
	return p
}

// Capacity is how many sandboxes the host may hold.
func (p *Places) Capacity() int { return p.capacity }

// Reserve waits until a task of the create queue can be served, and counts it
// until Release.
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
	if len(p.held)+p.reserved >= p.capacity+len(p.idle) {
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

// claim is a place that is set aside for a sandbox that is about to be made.
type claim struct {
	places *Places
	open   bool
}

// claim takes a place. Without a free one it returns the sandbox that has been
// idle the longest, which is no longer counted as idle: the caller has it give
// way, or calls rest if it does not. "" means that none can give way.
func (p *Places) claim() (c *claim, giveWay string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.held)+p.claimed < p.capacity {
		p.claimed++
		return &claim{p, true}, ""
	}
	for id, since := range p.idle {
		if giveWay == "" || since.Before(p.idle[giveWay]) {
			giveWay = id
		}
	}
	delete(p.idle, giveWay)
	return nil, giveWay
}

// hold gives the place to the sandbox that was made.
func (c *claim) hold(id string) {
	c.places.change(func() { c.places.claimed--; c.places.held[id] = true })
	c.open = false
}

// drop gives the place back, unless a sandbox holds it.
func (c *claim) drop() {
	if c.open {
		c.places.change(func() { c.places.claimed-- })
		c.open = false
	}
}

// awaitFree returns when the host no longer holds a sandbox.
func (p *Places) awaitFree(ctx context.Context, id string) error {
	for {
		p.mu.Lock()
		held, changed := p.held[id], p.changed
		p.mu.Unlock()
		if !held {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// free is for a sandbox that has ended.
func (p *Places) free(id string) {
	p.change(func() { delete(p.held, id); delete(p.idle, id) })
}

// use keeps a sandbox from giving way; rest lets it again.
func (p *Places) use(id string) { p.change(func() { delete(p.idle, id) }) }

func (p *Places) rest(id string) {
	p.change(func() {
		if p.held[id] {
			p.idle[id] = time.Now()
		}
	})
}

func (p *Places) change(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
	close(p.changed)
	p.changed = make(chan struct{})
}
