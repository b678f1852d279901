package e2e

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/test/skip"
)

// randomLives names the environment's variable with the number of sessions for each agent.
const randomLives = "SOJOURN_RANDOM_LIVES"

// life is a session that gets requests at random moments.
type life struct {
	*session.Handle
	t      *testing.T
	random *rand.Rand
	sent   []session.Receipt
	// children are the ids of the sessions that it has spawned.
	children []string
	answers  sync.WaitGroup
}

// scripts are what its messages ask of the agent.
var scripts = []string{
	"SAY some words", "THINK about it", "TWO", "SLOW 0.6", "TOOL bash: echo one", "TOOL bash: sleep 0.3; echo slept THEN SAY awake",
	"TOOL write: a.txt :: text THEN TOOL read: a.txt THEN SAY read", threeTools, "SUBAGENT TOOL bash: echo inner ANDTHEN SAY inner",
}

// step sends the session one request, a random time after the last: no condition could choose
// a moment that is not thought of.
func (l *life) step(ctx context.Context) {
	time.Sleep(time.Duration(l.random.IntN(400)) * time.Millisecond)
	switch n := l.random.IntN(20); {
	case n < 12:
		l.send(ctx)
	case n < 14:
		_, err := l.Interrupt(ctx, session.InterruptRequest{})
		require.NoError(l.t, err)
		require.NoError(l.t, l.ClearAbort(ctx))
	case n < 16 && len(l.sent) > 0:
		_, err := l.EditQueue(ctx, l.edit())
		if _, invalid := errors.AsType[*session.InvalidError](err); !invalid { // else it has begun or ended
			require.NoError(l.t, err)
		}
	case n == 16:
		mode := []adapters.Permission{permission.Ask, permission.Allow}[l.random.IntN(2)]
		_, err := l.Configure(ctx, session.Configure{Permission: &mode})
		require.NoError(l.t, err)
	case n == 17:
		reply, err := l.Spawn(ctx, session.SpawnRequest{Message: session.Message{Text: l.script()}})
		require.NoError(l.t, err)
		l.children = append(l.children, reply.ChildID)
	case n == 18:
		require.NoError(l.t, l.Close(ctx))
		h, err := spaceOf(l.t).Client.Open(ctx, l.ID(), session.Options{})
		require.NoError(l.t, err)
		l.Handle = h
		l.answering(ctx)
	default:
		if err := l.Evict(ctx); !errors.Is(err, session.ErrBusy) {
			require.NoError(l.t, err)
		}
	}
}

func (l *life) script() string { return scripts[l.random.IntN(len(scripts))] }

// send sends a message in one of the ways to treat a running turn.
func (l *life) send(ctx context.Context) {
	mode := []session.BusyPolicy{session.BusyQueue, session.BusySteer, session.BusySteer, session.BusyInterrupt, session.BusyReject}[l.random.IntN(5)]
	r, err := l.Send(ctx, session.Message{Text: l.script(), WhenBusy: mode})
	if errors.Is(err, session.ErrBusy) && mode == session.BusyReject {
		return
	}
	require.NoError(l.t, err)
	l.sent = append(l.sent, r)
}

// edit returns a change of a message that may still wait.
func (l *life) edit() session.QueueEdit {
	e := session.QueueEdit{MessageID: l.sent[max(0, len(l.sent)-1-l.random.IntN(3))].MessageID}
	switch l.random.IntN(3) {
	case 0:
		e.Cancel = true
	case 1:
		e.Place = new(0)
	default:
		e.Message = &session.Message{Text: l.script()}
	}
	return e
}

// answering answers each request of the session's tree after some time, until the session is
// closed. Some are withdrawn before, some turns are parked before.
func (l *life) answering(ctx context.Context) {
	h, random := l.Handle, rand.New(rand.NewPCG(l.random.Uint64(), 0))
	l.answers.Go(func() {
		for ev, err := range h.TreeEvents(ctx, session.TreeOptions{Follow: true}) {
			if _, asks := ev.Payload.(event.PermissionRequested); err == nil && asks {
				wait := time.Duration(random.IntN(200)) * time.Millisecond
				if random.IntN(8) == 0 {
					wait = 2 * park
				}
				time.Sleep(wait)
				_ = h.RespondTo(ctx, ev.Event, session.RespondRequest{Allow: random.IntN(4) > 0})
			}
		}
	})
}

// park is when a session's turn is parked.
const park = time.Second

// TestRandomLife: messages of every kind, interrupts, answers and evictions come at random
// moments. No message fails and none is forgotten, the session takes the next one, and the
// archive has what was seen.
func TestRandomLife(t *testing.T) {
	lives, err := strconv.Atoi(os.Getenv(randomLives))
	if err != nil {
		skip.Unasked(t, "a search for new faults, not a proof of the old: "+randomLives+"=3 runs it, make nightly does")
	}
	withClaude(t)
	inOwnNamespace(t)
	startWorker(t)
	eachAgent(t, func(t *testing.T, a adapters.Adapter) {
		for range lives {
			liveAtRandom(t, a.Info().Name)
		}
	})
}

func liveAtRandom(t *testing.T, agent string) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	opts := session.Options{Agent: agent, NoProgressMS: time.Minute.Milliseconds(), Park: permission.Park(park.Milliseconds())}
	if random.IntN(2) == 0 {
		opts.Permission = permission.Ask
	}
	l := &life{Handle: open(t, opts), t: t, random: random}
	t.Logf("session %s, permission %q, seed %d", l.ID(), opts.Permission, seed)
	l.answering(ctx)
	for range 20 {
		l.step(ctx)
	}
	for i, r := range l.sent {
		res, err := l.Wait(ctx, r)
		require.NoError(t, err, "message %d", i)
		if res.Outcome == session.Failed {
			require.Equal(t, session.TypeClosed, res.Error.Code, "message %d: %v", i, res.Err())
		}
	}
	require.Equal(t, "the end", say(t, l.Handle, "SAY the end").Result.Response)
	require.NoError(t, l.Close(ctx))
	l.answers.Wait()
	requireSame(t, l.ID())
	for _, id := range l.children {
		requireSame(t, id)
	}
}
