package host

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/session"
)

// make reserves and takes a slot and makes a sandbox, as a host does.
func (p *Slots) make(t *testing.T, id string) {
	t.Helper()
	require.True(t, p.TryReserve())
	c, _, _ := p.take()
	require.NotNil(t, c)
	c.Fill(id)
	c.Close()
	p.Release()
}

func TestSlots(t *testing.T) {
	t.Parallel()
	p := NewSlots(2)
	require.Equal(t, 2, p.Capacity())
	p.make(t, "a")
	p.make(t, "b")
	require.False(t, p.TryReserve(), "a sandbox holds its slot")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, p.Reserve(ctx), context.Canceled)
	p.Free("b")
	p.Free("b")
	require.True(t, p.TryReserve(), "a slot is freed once, however often Free is called")
	require.False(t, p.TryReserve())
	c, _, _ := p.take()
	again, evict, _ := p.take()
	require.Nil(t, again)
	require.Empty(t, evict, "a sandbox in use is not evicted")
	c.Close()
	c.Close()
	c, _, _ = p.take()
	require.NotNil(t, c, "a slot is returned once")
}

// The sandbox that has been idle the longest is evicted, and only on demand.
func TestSlotsOfIdleSandboxes(t *testing.T) {
	t.Parallel()
	p := NewSlots(3, "old", "older")
	p.make(t, "new")
	p.Busy("older")
	p.Idle("older")
	p.Idle("new")
	p.Busy("new")
	for _, want := range []string{"old", "older", ""} {
		p.want()
		require.Equal(t, want != "", p.TryReserve())
		c, evict, _ := p.take()
		require.Nil(t, c)
		require.Equal(t, want, evict)
		if want != "" {
			p.Release()
		}
	}
	p.Idle("gone")
	require.False(t, p.TryReserve(), "a sandbox that is not held is not idle")
	p.Free("old")
	require.NoError(t, p.awaitFree(t.Context(), "old"))
	require.True(t, p.TryReserve())
}

// A sandbox that was not evicted may be asked for again, unless a turn has begun in it
// meanwhile.
func TestSlotsOfASandboxThatStays(t *testing.T) {
	t.Parallel()
	p := NewSlots(2, "idle", "busy")
	for range 2 {
		p.want()
		_, evict, _ := p.take()
		require.NotEmpty(t, evict)
	}
	p.Busy("busy")
	p.stays("busy")
	p.stays("idle")
	_, evict, _ := p.take()
	require.Equal(t, "idle", evict)
	_, evict, _ = p.take()
	require.Empty(t, evict)
}

// A taker that comes again evicts no second sandbox while the first one is on its way out,
// and another one if that stays.
func TestSlotsOfATakerThatComesAgain(t *testing.T) {
	t.Parallel()
	p := NewSlots(2, "first", "second")
	p.Busy("second")
	p.Idle("second")
	done := p.want()
	_, evict, _ := p.take()
	require.Equal(t, "first", evict)
	done()
	done = p.want()
	_, evict, _ = p.take()
	require.Empty(t, evict)
	p.refused("first")
	_, evict, _ = p.take()
	require.Equal(t, "second", evict)
	p.Free("second")
	done()
	defer p.want()()
	slot, _, _ := p.take()
	require.NotNil(t, slot)
}

// A sandbox that is being made is held: a host that is drained has to wait for it.
func TestSlotsOfASandboxThatIsBeingMade(t *testing.T) {
	t.Parallel()
	p := NewSlots(2)
	c, _, _ := p.take()
	p.setClosed(true)
	require.Equal(t, 1, p.Held())
	c.Fill("made")
	require.Equal(t, 1, p.Held())
	p.Free("made")
	require.Zero(t, p.Held())
}

func TestSlotsWait(t *testing.T) {
	t.Parallel()
	p := NewSlots(1)
	p.make(t, "old")
	got := make(chan error, 1)
	go func() { got <- p.Reserve(t.Context()) }()
	p.Free("other")
	select {
	case err := <-got:
		t.Fatalf("reserved what is taken: %v", err)
	default:
	}
	p.Free("old")
	require.NoError(t, <-got)
}

// A host that is drained takes no new sandboxes and evicts none for them, until that ends;
// its data folder keeps it.
func TestSlotsOfADrainedHost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := New(Options{DataDir: dir, Slots: NewSlots(2, "old"), Log: quiet()})
	require.False(t, h.Draining())
	require.NoError(t, h.SetDraining(false), "it may be said twice")
	require.NoError(t, h.SetDraining(true))
	require.False(t, h.Slots.TryReserve())
	_, err := h.TakeSlot(t.Context())
	require.ErrorContains(t, err, "is being drained")

	again := New(Options{DataDir: dir, Slots: NewSlots(2, "old"), Log: quiet()})
	require.True(t, again.Draining(), "a restart does not end it")
	got := make(chan error, 1)
	go func() { got <- again.Slots.Reserve(t.Context()) }()
	require.NoError(t, again.SetDraining(false))
	require.NoError(t, <-got)
	require.Equal(t, 1, again.Slots.Held())
	require.False(t, New(Options{DataDir: dir, Log: quiet()}).Draining())
}

// However many ask concurrently, no more than fit get a slot.
func TestSlotsConcurrent(t *testing.T) {
	t.Parallel()
	const capacity = 3
	p := NewSlots(capacity)
	var mu sync.Mutex
	var wg sync.WaitGroup
	in, most := 0, 0
	step := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		in += by
		most = max(most, in)
	}
	for i := range 20 {
		wg.Go(func() {
			for j := range 50 {
				if p.Reserve(t.Context()) != nil {
					return
				}
				id := fmt.Sprint(i, "-", j)
				if c, _, _ := p.take(); c != nil {
					c.Fill(id)
					step(1)
					step(-1)
				}
				p.Release()
				p.Free(id)
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, most, capacity)
	for range capacity {
		require.True(t, p.TryReserve())
	}
	require.False(t, p.TryReserve())
}

// noRunner has sandboxes in which no agent was started.
type noRunner struct {
	sandbox.Provider
	infos []sandbox.Info
}

func (p noRunner) List(context.Context) ([]sandbox.Info, error) { return p.infos, nil }
func (p noRunner) Open(context.Context, string) (sandbox.Sandbox, error) {
	return nil, sandbox.ErrNotFound
}

// A new sandbox keeps its place in the queue while an idle one is being ended already, by its
// own session, and is offered to other hosts if that takes too long.
func TestSlotsOfOneThatIsBeingEnded(t *testing.T) {
	t.Parallel()
	for refused, atMost := range map[error]time.Duration{session.ErrBusy: slotPatience, session.ErrClosed: evictPatience} {
		for _, ends := range []bool{true, false} {
			t.Run(fmt.Sprint(refused, ends), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := New(Options{DataDir: t.TempDir(), Slots: NewSlots(1, "idle"), Log: quiet(),
						Provider: noRunner{infos: []sandbox.Info{{State: sandbox.State{SandboxID: "idle"}, SessionID: "s"}}},
						Evict:    func(context.Context, string, session.EvictRequest) error { return refused }})
					var slot *Slot
					began := time.Now()
					got := make(chan error, 1)
					go func() {
						var err error
						slot, err = h.TakeSlot(t.Context())
						got <- err
					}()
					synctest.Wait()
					require.Empty(t, got)
					if ends {
						h.Slots.Free("idle")
						require.NoError(t, <-got)
						require.NotNil(t, slot)
						return
					}
					require.ErrorContains(t, <-got, "waiting for a free slot")
					require.Equal(t, atMost, time.Since(began))
				})
			})
		}
	}
}

// A new sandbox is not evicted before its turn could begin, and is when none does.
func TestSlotsOfANewSandbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := NewSlots(2)
		p.make(t, "new")
		p.make(t, "used")
		for _, id := range []string{"new", "used", "not held"} {
			p.Spare(id)
		}
		require.False(t, p.TryReserve())
		p.Busy("used")
		time.Sleep(evictAgain) // by the bubble's clock, which does not wait
		synctest.Wait()
		require.True(t, p.TryReserve())
		require.False(t, p.TryReserve())
		_, evict, _ := p.take()
		require.Equal(t, "new", evict)
	})
}
