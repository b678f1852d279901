package modelsim

import (
	"context"
	"fmt"
	"sync"
)

// gates are the places where answers wait. A gate is made by the first who
// names it and is never shut again.
type gates struct {
	mu    sync.Mutex
	named map[string]*gate
}

type gate struct {
	opened  chan struct{}
	isOpen  bool
	waiting int
	// arrived is closed, and replaced, at each arrival.
	arrived chan struct{}
}

func (g *gates) get(name string) *gate {
	if g.named == nil {
		g.named = map[string]*gate{}
	}
	if g.named[name] == nil {
		g.named[name] = &gate{opened: make(chan struct{}), arrived: make(chan struct{})}
	}
	return g.named[name]
}

// pass waits until the gate is open.
func (g *gates) pass(ctx context.Context, name string) error {
	g.mu.Lock()
	it := g.get(name)
	it.waiting++
	close(it.arrived)
	it.arrived = make(chan struct{})
	g.mu.Unlock()
	defer g.leave(it)
	select {
	case <-it.opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gates) leave(it *gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	it.waiting--
}

func (g *gates) open(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	it := g.get(name)
	if !it.isOpen {
		it.isOpen = true
		close(it.opened)
	}
}

// await returns when an answer waits at the gate.
func (g *gates) await(ctx context.Context, name string) error {
	for {
		g.mu.Lock()
		it := g.get(name)
		waiting, arrived := it.waiting, it.arrived
		g.mu.Unlock()
		if waiting > 0 {
			return nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return fmt.Errorf("modelsim: nobody came to gate %q: %w", name, ctx.Err())
		}
	}
}

// Gate is the state of one gate.
type Gate struct {
	Name    string `json:"name"`
	Open    bool   `json:"open"`
	Waiting int    `json:"waiting"`
}

func (g *gates) list() []Gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := []Gate{}
	for name, it := range g.named {
		out = append(out, Gate{name, it.isOpen, it.waiting})
	}
	return out
}
