package chaos

import (
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/sojourn-run/sojourn/test/harness"
)

// quiet is how long a kill waits for events before it is done without them: after the
// loss of a host there may be none until the loss is noticed.
const quiet = 15 * time.Second

// carryOut carries out the plan. A kill that found nothing to kill is tried again at
// the end, up to half the plan's length in all.
func (d *driver) carryOut(ctx context.Context, plan []Kill, count func()) {
	put := len(plan) / 2
	for i := 0; i < len(plan); i++ {
		d.await(ctx, plan[i].After)
		met := d.killSoon(ctx, plan[i])
		switch {
		case met:
			count()
		case ctx.Err() != nil:
			d.note("the time for kills was over after %d of %d", i, len(plan))
			return
		case put > 0:
			put--
			plan = append(plan, plan[i])
		default:
			d.note("a %s met nothing to kill", plan[i].Kind)
			count()
		}
	}
}

// killSoon does one kill as soon as there is something to kill, and reports whether it
// did.
func (d *driver) killSoon(ctx context.Context, k Kill) bool {
	for began := time.Now(); ctx.Err() == nil && time.Since(began) < quiet; wait(ctx, 50*time.Millisecond) {
		if d.kill(ctx, k) {
			d.mu.Lock()
			d.kills[k.Kind]++
			d.mu.Unlock()
			return true
		}
	}
	return false
}

// await waits for n more events.
func (d *driver) await(ctx context.Context, n int) {
	ctx, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	d.mu.Lock()
	goal := d.events + n
	d.mu.Unlock()
	for {
		d.mu.Lock()
		reached, changed := d.events >= goal, d.changed
		d.mu.Unlock()
		if reached {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// kill does one kill. It reports whether there was something to kill.
func (d *driver) kill(ctx context.Context, k Kill) bool {
	switch k.Kind {
	case WorkerKill, WorkerTerm, WorkerBefore, WorkerStop, HostKill:
		return d.killHost(ctx, k)
	case StackKill:
		return d.killStack(ctx)
	case StreamDelete:
		return d.deleteStream(ctx)
	case HostileTool:
		return d.hostile(k.Pick)
	case StreamAway, ArchiveAway, TemporalAway:
		return d.cut(ctx, k)
	default:
		return d.killInside(k)
	}
}

// killHost picks a living host of a session with an open turn.
func (d *driver) killHost(ctx context.Context, k Kill) bool {
	open := d.inTurn()
	if len(open) == 0 {
		return false
	}
	s := open[k.Pick%uint64(len(open))]
	h := d.hosts.of(s.id)
	if h == nil || (k.Kind == HostKill && len(d.hosts.living()) < 2) {
		return false
	}
	p := h.take()
	if p == nil {
		return false
	}
	d.strike(k.Kind, func(s *testCase) bool { return h.holds(s.id) || d.hosts.of(s.id) == nil }, h.dir)
	d.endWorker(ctx, k, h, p)
	return true
}

func (d *driver) endWorker(ctx context.Context, k Kill, h *host, p *harness.Process) {
	switch k.Kind {
	case WorkerKill:
		d.hosts.replace(context.WithoutCancel(ctx), h, p.Kill)
	case WorkerTerm:
		d.hosts.replace(context.WithoutCancel(ctx), h, p.Stop)
	case WorkerBefore:
		d.hosts.visit(context.WithoutCancel(ctx), h, p, d.o.Before, k.Hold)
	case WorkerStop:
		_ = syscall.Kill(p.PID(), syscall.SIGSTOP)
		d.hosts.owned.Go(func() {
			wait(ctx, k.Hold)
			_ = syscall.Kill(p.PID(), syscall.SIGCONT)
			h.mu.Lock()
			h.worker = p
			h.mu.Unlock()
		})
	case HostKill:
		if err := h.kill(p); err != nil {
			d.note("kill host: %v", err)
		}
		d.hosts.owned.Go(func() {
			// Retry: a server may be unreachable. Add the host even after the end of
			// the kills, since the open sessions need one.
			for range 30 {
				wait(ctx, 5*time.Second)
				_, err := d.hosts.add(context.WithoutCancel(ctx))
				if err == nil {
					return
				}
				d.note("a host could not start: %s", gist(err))
			}
		})
	}
}

// cut makes a server unreachable for a while.
func (d *driver) cut(ctx context.Context, k Kill) bool {
	f := map[Kind]*harness.Forwarder{StreamAway: d.hosts.links.stream, ArchiveAway: d.hosts.links.archive, TemporalAway: d.hosts.links.temporal}[k.Kind]
	if len(d.inTurn()) == 0 {
		return false
	}
	d.strike(k.Kind, func(*testCase) bool { return true }, "")
	f.Stop()
	wait(ctx, k.Hold)
	if err := f.Start(); err != nil {
		d.note("%s: %v", k.Kind, err)
	}
	return true
}

// killInside picks a process of a session with an open turn.
func (d *driver) killInside(k Kill) bool {
	open := d.inTurn()
	if len(open) == 0 {
		return false
	}
	first := int(k.Pick % uint64(len(open)))
	all := d.leaks.list()
	return slices.ContainsFunc(slices.Concat(open[first:], open[:first]), func(s *testCase) bool { return d.killOne(s, all, k.Kind, k.Pick/7) })
}

// killOne kills a process of one session. It reports whether there was one.
func (d *driver) killOne(s *testCase, all []process, kind Kind, pick uint64) bool {
	mark, ok := s.running()
	if !ok {
		return false
	}
	var targets []process
	switch kind {
	case ToolKill:
		targets = tools(all, s.id, mark)
	case AgentKill:
		targets = agents(all, s.id)
	case RunnerKill:
		targets = supervisors(all, s.id)
	}
	if len(targets) == 0 {
		return false
	}
	p := targets[pick%uint64(len(targets))]
	d.strike(kind, func(other *testCase) bool { return other == s }, p.exe)
	_ = syscall.Kill(p.pid, syscall.SIGKILL)
	awaitEnd(p)
	if next, open := s.running(); open && next != mark {
		s.hit(Hit{Kind: kind, At: time.Now()}) // the kill was in time for the next turn
	}
	return true
}

// awaitEnd waits until a killed process has ended, which takes a moment for a large
// one.
func awaitEnd(p process) {
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		if now, lives := alive(p.pid); !lives || now.key() != p.key() {
			return
		}
	}
}

// strike records a kill for the turns that it meets.
func (d *driver) strike(k Kind, meets func(*testCase) bool, what string) {
	hit := Hit{Kind: k, At: time.Now()}
	for _, s := range d.everyone() {
		if !meets(s) {
			continue
		}
		s.hit(hit)
		if d.o.Verbose {
			mark, _ := s.running()
			d.say("%s %s meets %s %s", k, what, s.id, mark)
		}
	}
}
