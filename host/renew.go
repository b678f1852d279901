package host

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/session"
)

const (
	// renewEvery is how often a host looks for sandboxes to be given up.
	renewEvery = time.Second
	// renewAgain is when a session that has accepted is asked again.
	renewAgain = 10 * time.Minute
)

// Renew has the sessions of sandboxes give them up, until ctx ends: of all while this host
// is drained, else of those older than MaxAge. A sandbox with commands in the background
// stays until they end.
func (h *Host) Renew(ctx context.Context) {
	asked := map[string]demand{}
	Every(ctx, renewEvery, func() {
		if !h.Draining() && h.o.MaxAge == 0 {
			clear(asked)
			return
		}
		var mu sync.Mutex
		now := map[string]demand{}
		h.eachSandbox(ctx, "have a sandbox given up", func(ctx context.Context, info sandbox.Info) error {
			d, err := h.demand(ctx, info, asked[info.SandboxID])
			mu.Lock()
			now[info.SandboxID] = d
			mu.Unlock()
			return err
		})
		asked = now
	})
}

// demand is a request for a sandbox that its session has accepted.
type demand struct {
	reason string
	at     time.Time
}

// demand asks a sandbox's session to give it up, if there is a reason to. last is what was
// demanded before.
func (h *Host) demand(ctx context.Context, info sandbox.Info, last demand) (demand, error) {
	reason := ""
	switch {
	case info.Shares != "":
		// Its parent's sandbox, which it is in, stays until it has ended.
	case h.Draining():
		reason = session.EvictForDrain
	case h.o.MaxAge > 0 && time.Since(info.Created) > h.o.MaxAge:
		reason = session.EvictForAge
	}
	switch {
	case reason == "":
		return demand{}, nil // a host that is drained once more asks at once
	case reason == last.reason && time.Since(last.at) < renewAgain:
		return last, nil
	}
	if commands := h.Background(ctx, info); len(commands) > 0 {
		return last, fmt.Errorf("commands are at work in the background: %s", strings.Join(commands, ", "))
	}
	if err := h.o.Evict(ctx, info.SessionID, session.EvictRequest{SandboxID: info.SandboxID, Reason: reason}); err != nil {
		return last, err
	}
	return demand{reason, time.Now()}, nil
}
