package activities

import (
	"context"
	"iter"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer/overview"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// activation is a provider that records each step on the sandboxes it makes, after what the
// session's stream has by then.
type activation struct {
	sandbox.Provider
	b     *bench
	heard uint64
	steps []string
}

func (a *activation) note(step string) {
	for ev, err := range a.b.log.Read(a.b.t.Context(), a.b.agent.SessionID, a.heard, stream.ReadOptions{}) {
		require.NoError(a.b.t, err)
		a.heard = ev.Context.Seq
		name := string(ev.Type())
		if p, ok := ev.Payload.(event.Status); ok {
			name += " " + p.State
		}
		a.steps = append(a.steps, name)
	}
	a.steps = append(a.steps, step)
}

func (a *activation) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	a.note("create")
	sb, err := a.Provider.Create(ctx, spec)
	return activated{sb, a}, err
}

type activated struct {
	sandbox.Sandbox
	a *activation
}

// CopyIn records each file when it is read.
func (s activated) CopyIn(ctx context.Context, area sandbox.Area, files iter.Seq2[sandbox.File, error]) error {
	return s.Sandbox.CopyIn(ctx, area, func(yield func(sandbox.File, error) bool) {
		for f, err := range files {
			s.a.note(string(area) + " " + f.Path)
			if !yield(f, err) {
				return
			}
		}
	})
}

// TestR100ActivationSteps: the status is starting before anything is made; the sandbox, its
// transcripts, its profile and its files follow; then it is ready. TestR100ActivationOrder
// checks that the query is last.
func TestR100ActivationSteps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.begin()
	const transcript = ".claude/projects/x/main.jsonl"
	epoch, err := b.store.TakeEpoch(t.Context(), b.agent.SessionID)
	require.NoError(t, err)
	_, err = b.store.AppendTranscript(t.Context(), b.agent.SessionID, epoch,
		adapters.Transcript{ID: event.Main, Path: transcript, Kind: adapters.Append}, 0, []byte("{}\n"))
	require.NoError(t, err)

	a := &activation{Provider: b.provider, b: b, heard: b.last}
	b.provider = a
	b.profile = func(context.Context, string) (adapters.Profile, error) {
		return adapters.Profile{ID: "p", Instructions: "the profile", Workspace: map[string]string{"start.md": "a file"}}, nil
	}
	b.agent.Profile = "p"
	b.worker()
	b.create()
	a.note("done")

	steps := slices.Compact(slices.Collect(func(yield func(string) bool) {
		for _, s := range a.steps {
			switch {
			case len(s) > 5 && s[:5] == "home " && s[len(s)-6:] == ".jsonl":
				s = "transcripts"
			case len(s) > 5 && s[:5] == "home ":
				s = "profile"
			case len(s) > 10 && s[:10] == "workspace ":
				s = "files"
			}
			if !yield(s) {
				return
			}
		}
	}))
	require.Equal(t, []string{
		"ee:creating", "status starting", "create", "transcripts", "transcript:written", "profile", "files", "ee:ready", "status ready", "done",
	}, steps)
}

// TestR68LostSandboxIsTerminated: a sandbox that is lost with its host is terminated for
// subscribers, as unhealthy, once, before the next one is made or the session closed.
func TestR68LostSandboxIsTerminated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.begin()
	lost := session.Sandbox{ID: b.agent.SessionID + "-e1", Host: "host-0", Epoch: 1}
	for range 2 { // an attempt that died, and the next one
		out, err := as[contract.CreateSandboxOutput](t.Context(), 1, b.host.CreateSandbox, contract.CreateSandboxInput{Agent: b.agent, Lost: &lost, LastSeq: b.last})
		require.NoError(t, err)
		b.sandbox = out.Sandbox
	}
	gone := session.Sandbox{ID: b.sandbox.ID, Host: "host-1", Epoch: b.sandbox.Epoch}
	s := &Session{Stream: b.log, Archive: b.store}
	require.NoError(t, s.Finish(t.Context(), contract.FinishInput{
		Session: session.Input{SessionID: b.agent.SessionID}, Epoch: gone.Epoch, Lost: &gone, Unlisted: true,
	}))
	var told []string
	var now overview.Builder
	for ev, err := range b.log.Read(t.Context(), b.agent.SessionID, 0, stream.ReadOptions{}) {
		require.NoError(t, err)
		now.Add(ev)
		switch p := ev.Payload.(type) {
		case event.EETerminated:
			told = append(told, p.SandboxID+" on "+p.Host+" is "+p.Status+": "+p.Reason)
			require.Equal(t, "terminated", now.Session().Environment.Status)
		case event.EECreating, event.EEReady, event.SessionClosed:
			told = append(told, string(ev.Type()))
		}
	}
	require.Equal(t, []string{
		lost.ID + " on host-0 is terminated: unhealthy", "ee:creating", "ee:ready", "ee:creating", "ee:ready",
		gone.ID + " on host-1 is terminated: unhealthy", "session:closed",
	}, told)
}
