package chaos

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/session"
)

// manner is what a session of a full run does besides sending one message after
// another.
type manner string

const (
	plainly manner = ""
	// asking: the agent asks for permission, and a person allows it after a moment.
	asking manner = "asking"
	// parking: the person answers so late that the turn is parked.
	parking manner = "parking"
	// steering: a second message is sent while the first one's turn is running.
	steering manner = "steering"
	// limited: a limit pauses the session after each message, until it is raised.
	limited manner = "limited"
)

var manners = []manner{plainly, asking, parking, steering, limited}

// suggestAt is the history length, in events, at which the server of a full run
// suggests to continue as new: every few turns.
const suggestAt = 60

// parkAfter is the park time of sessions with [parking].
const parkAfter = 1000 // milliseconds

// mannerOf returns the manner of session n. Each agent has sessions with every manner.
func (d *driver) mannerOf(n int) manner {
	if !d.o.Full || n >= firstHostile {
		return plainly
	}
	return manners[n/len(d.o.Agents)%len(manners)]
}

func (m manner) options(agent string) session.Options {
	o := session.Options{Agent: agent}
	switch m {
	case asking:
		o.Permission = adapters.PermissionAsk
	case parking:
		o.Permission, o.Park = adapters.PermissionAsk, parkAfter
	case limited:
		o.Limits = limits.Limits{Turns: 1}
	}
	return o
}

// asks reports whether the agent asks a person.
func (m manner) asks() bool { return m == asking || m == parking }

// says reports whether a session uses a script. One that asks needs tools, and Gemini
// CLI starts no subagents where it must ask.
func (m manner) says(agent, script string) bool {
	return !m.asks() || strings.Contains(script, "TOOL") && (agent != "gemini" || !strings.Contains(script, "SUBAGENT"))
}

// attend acts as the person beside a session: it answers requests and raises limits
// until the session is over. Calls that fail are retried.
func (s *testCase) attend(ctx context.Context, rng *rand.Rand) {
	turns, due := 1, map[string]time.Time{}
	for ; ctx.Err() == nil; wait(ctx, 400*time.Millisecond) {
		short, done := context.WithTimeout(ctx, askPatience)
		now, err := s.handle.Inspect(short)
		if err == nil && now.Status == session.StatusPaused {
			if _, err = s.handle.Configure(short, session.Configure{Limits: &limits.Change{Turns: new(turns + 1)}}); err == nil {
				turns++
			}
		}
		for _, id := range now.Pending {
			if due[id].IsZero() {
				due[id] = time.Now().Add(s.manner.later(rng))
			}
			if time.Now().After(due[id]) {
				_ = s.handle.Respond(short, session.RespondRequest{RequestID: id, Allow: true, By: "chaos"}) // the request may have ended with its agent
			}
		}
		done()
	}
}

// later returns how long the person takes to answer.
func (m manner) later(rng *rand.Rand) time.Duration {
	if m == parking {
		return 2500*time.Millisecond + time.Duration(rng.IntN(2500))*time.Millisecond
	}
	return time.Duration(rng.IntN(1500)) * time.Millisecond
}

// steeredScript is the script of a message that is sent while another one's turn is
// running.
const steeredScript = "SAY " + mark + " steered"

// sayTwo sends a message, and a second one into its turn, and waits for both ends.
func (s *testCase) sayTwo(ctx context.Context, script string) bool {
	first := s.begin(Turn{Script: script, Steered: true})
	defer s.end(first)
	r, accepted := s.send(ctx, first, session.BusyQueue)
	if !accepted {
		return false
	}
	begun, cancel := context.WithTimeout(ctx, askPatience)
	id := s.turn(first).Message
	s.sub.until(begun, func(h Heard) bool {
		b, asked := h.Payload.(event.BlockUpsert)
		return asked && b.Block.ID == id || endsMessage(h, id)
	})
	cancel()
	second := s.begin(Turn{Script: steeredScript, Steered: true})
	defer s.end(second)
	next, accepted := s.send(ctx, second, session.BusySteer)
	if !accepted {
		return false
	}
	ended := s.await(ctx, first, r)
	s.end(first)
	return s.await(ctx, second, next) && ended
}

func endsMessage(h Heard, id string) bool {
	_, ends := session.ResultOf(h.Event, id)
	return ends
}
