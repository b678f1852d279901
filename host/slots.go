package host

import (
	"context"
	"sync"
	"time"
)

// Slots counts the sandboxes that a host holds against its capacity. A host asks for new
// sandboxes only while it has a free slot, or an idle sandbox that can be evicted. Safe for
// concurrent use.
type Slots struct {
	capacity int

	mu sync.Mutex
	// closed reports whether the host is drained: it makes no new sandboxes.
	closed bool
	// reserved are the tasks of the create queue that the host has or polls for; taken are
	// those of them that have a slot and no sandbox yet.
	reserved, taken int
	held            map[string]bool
	// idle is since when a held sandbox has been idle; one that is not in it is not
	// evicted.
	idle map[string]time.Time
	// spared are not evicted for now: new ones, and those whose eviction was asked for. Each
	// is until a turn begins in it, or for evictAgain.
	spared map[string]bool
	// takers counts those that want a slot now; leaving are the sandboxes whose eviction
	// is under way, also for one that has given up since. There are no more of these.
	takers  int
	leaving map[string]bool
	changed chan struct{}
}

// NewSlots returns the slots of a host that may hold capacity sandboxes. held are those
// that exist already; they count as idle, longer than all others, until a turn runs in
// them.
func NewSlots(capacity int, held ...string) *Slots {
	s := &Slots{capacity: capacity, held: map[string]bool{}, idle: map[string]time.Time{}, spared: map[string]bool{}, leaving: map[string]bool{}, changed: make(chan struct{})}
	for _, id := range held {
		s.held[id], s.idle[id] = true, time.Time{}
	}
	return s
}

// Capacity returns how many sandboxes the host may hold.
func (s *Slots) Capacity() int { return s.capacity }

// Reserve waits until a task of the create queue can be served, and counts it until
// Release.
func (s *Slots) Reserve(ctx context.Context) error {
	for {
		s.mu.Lock()
		if s.reserveLocked() {
			s.mu.Unlock()
			return nil
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TryReserve is like Reserve, but doesn't wait.
func (s *Slots) TryReserve() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reserveLocked()
}

func (s *Slots) reserveLocked() bool {
	if s.closed || len(s.held)+s.reserved >= s.capacity+len(s.idle) {
		return false
	}
	s.reserved++
	return true
}

// Release returns a reservation; a sandbox that was made under it is held under its own id
// by then.
func (s *Slots) Release() {
	s.change(func() { s.reserved-- })
}

// Slot is reserved for a sandbox that is about to be made. A nil one is for a sandbox in
// another one, which needs none.
type Slot struct {
	slots *Slots
	open  bool
}

// want counts a taker of a slot until done is called.
func (s *Slots) want() (done func()) {
	s.change(func() { s.takers++ })
	return func() { s.change(func() { s.takers-- }) }
}

// take takes a slot. Without a free one it returns the sandbox that has been idle the
// longest, which no longer counts as idle: the caller evicts it, or calls stays if it can't.
// "" means that none can be evicted, or that enough are; changed is closed when that may be
// otherwise.
func (s *Slots) take() (slot *Slot, evict string, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, "", s.changed
	}
	if len(s.held)+s.taken < s.capacity {
		s.taken++
		return &Slot{s, true}, "", s.changed
	}
	if len(s.leaving) > 0 && len(s.leaving) >= s.takers {
		return nil, "", s.changed
	}
	for id, since := range s.idle {
		if evict == "" || since.Before(s.idle[evict]) {
			evict = id
		}
	}
	if evict != "" {
		delete(s.idle, evict)
		s.spared[evict], s.leaving[evict] = true, true
	}
	return nil, evict, s.changed
}

// refused is called when a sandbox that was asked for is not given up.
func (s *Slots) refused(id string) { s.change(func() { delete(s.leaving, id) }) }

// Spare keeps a sandbox that is not idle from being evicted before a turn, or a check, begins in
// it, for a while.
func (s *Slots) Spare(id string) {
	s.change(func() {
		if s.held[id] {
			s.spared[id] = true
		}
	})
	time.AfterFunc(evictAgain, func() {
		s.change(func() {
			if s.spared[id] && !s.leaving[id] {
				s.restLocked(id)
			}
		})
	})
}

// stays allows a sandbox that was not evicted to be asked for again, unless a turn has begun
// in it.
func (s *Slots) stays(id string) {
	s.change(func() {
		if delete(s.leaving, id); s.spared[id] {
			s.restLocked(id)
		}
	})
}

func (s *Slots) restLocked(id string) {
	delete(s.spared, id)
	s.idle[id] = time.Now()
}

// Fill assigns the slot to the sandbox that was made.
func (s *Slot) Fill(id string) {
	if s == nil {
		return
	}
	s.slots.change(func() { s.slots.taken--; s.slots.held[id] = true })
	s.open = false
}

// Close returns the slot, unless a sandbox fills it.
func (s *Slot) Close() {
	if s != nil && s.open {
		s.slots.change(func() { s.slots.taken-- })
		s.open = false
	}
}

// awaitFree returns when the host no longer holds a sandbox.
func (s *Slots) awaitFree(ctx context.Context, id string) error {
	for {
		s.mu.Lock()
		held, changed := s.held[id], s.changed
		s.mu.Unlock()
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

// Free frees the slot of a sandbox that has ended.
func (s *Slots) Free(id string) {
	s.change(func() { delete(s.held, id); delete(s.idle, id); delete(s.spared, id); delete(s.leaving, id) })
}

// Held returns how many sandboxes the host holds, with those that are being made.
func (s *Slots) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held) + s.taken
}

func (s *Slots) setClosed(closed bool) { s.change(func() { s.closed = closed }) }

func (s *Slots) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Busy keeps a sandbox from being evicted.
func (s *Slots) Busy(id string) { s.change(func() { delete(s.idle, id); delete(s.spared, id) }) }

// Idle allows a sandbox to be evicted, as the last of those that are idle now.
func (s *Slots) Idle(id string) {
	s.change(func() {
		if s.held[id] {
			s.restLocked(id)
		}
	})
}

func (s *Slots) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	close(s.changed)
	s.changed = make(chan struct{})
}
