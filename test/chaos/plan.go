package chaos

import (
	"math/rand/v2"
	"time"
)

// Kind is what is killed and how.
type Kind string

// The kinds of kills, from the mildest to the hardest. A turn that met several counts
// for the hardest.
const (
	// Undisturbed is no kill at all.
	Undisturbed Kind = "none"
	// WorkerTerm sends SIGTERM to a worker; a new one is started.
	WorkerTerm Kind = "worker-term"
	// WorkerKill sends SIGKILL to a worker; a new one is started on its folder.
	WorkerKill Kind = "worker-kill"
	// WorkerStop sends SIGSTOP to a worker, and SIGCONT some seconds later.
	WorkerStop Kind = "worker-stop"
	// StreamAway, ArchiveAway and TemporalAway cut all hosts off from a server
	// for some seconds.
	StreamAway   Kind = "nats-away"
	ArchiveAway  Kind = "s3-away"
	TemporalAway Kind = "temporal-away"
	// WorkerBefore replaces a worker by one of the previous build for some seconds.
	WorkerBefore Kind = "worker-before"
	// StackKill sends SIGKILL to all servers and all workers at once; all are started
	// again.
	StackKill Kind = "stack-kill"
	// StreamDelete deletes the stream with the events of all sessions.
	StreamDelete Kind = "stream-deleted"
	// ToolKill sends SIGKILL to a process that a tool of the agent runs.
	ToolKill Kind = "tool-kill"
	// LeaseOver is no kill: no worker renewed the agent's lease in time, which ended
	// the agent. A turn of WorkerKill or milder that was silent for so long and was
	// then resumed counts here.
	LeaseOver Kind = "lease-over"
	// Parked and Steered are no kills: the turn was resumed after a person's answer, or
	// shared with another message.
	Parked  Kind = "parked"
	Steered Kind = "steered"
	// HostileTool is no kill: a session of its own, in which a tool does what could
	// keep the session from being closed.
	HostileTool Kind = "hostile-tool"
	// AgentKill sends SIGKILL to the agent's program, RunnerKill to the runner's
	// supervisor above it.
	AgentKill  Kind = "agent-kill"
	RunnerKill Kind = "runner-kill"
	// HostKill ends a worker and all runners of its folder, and deletes the folder. A
	// new host is added later.
	HostKill Kind = "host-kill"
)

// kinds are all, in the order of the table.
var kinds = []Kind{
	Undisturbed, WorkerTerm, WorkerKill, WorkerBefore, WorkerStop, StreamAway, ArchiveAway, TemporalAway, StackKill, StreamDelete, ToolKill,
	LeaseOver, Steered, Parked, HostileTool, AgentKill, RunnerKill, HostKill,
}

// rank returns the position of a kind in kinds, from mild to hard.
func (k Kind) rank() int {
	for i, other := range kinds {
		if other == k {
			return i
		}
	}
	return -1
}

// agentLives reports whether the agent's process survives a kill of this kind. Its turn
// must then be answered as if nothing had happened.
func (k Kind) agentLives() bool { return k.rank() <= ToolKill.rank() }

// hardest returns the hardest of some kinds, Undisturbed for none.
func hardest(of []Kind) Kind {
	out := Undisturbed
	for _, k := range of {
		if k.rank() > out.rank() {
			out = k
		}
	}
	return out
}

// bag is how often each kind occurs in twenty-five kills.
var bag = map[Kind]int{
	WorkerKill: 6, WorkerTerm: 3, WorkerBefore: 1, WorkerStop: 2, StreamAway: 1, ArchiveAway: 1, TemporalAway: 1, StackKill: 1, StreamDelete: 1, ToolKill: 2,
	HostileTool: 1, AgentKill: 2, RunnerKill: 2, HostKill: 1,
}

// Kill is one planned kill.
type Kill struct {
	Kind Kind `json:"kind"`
	// After is how many events, over all sessions, are received between the previous
	// kill and this one.
	After int `json:"after"`
	// Pick chooses among what can be killed then.
	Pick uint64 `json:"pick"`
	// Hold is how long a stop or an outage lasts.
	Hold time.Duration `json:"hold"`
}

// maxAfter is the most events between two kills.
const maxAfter = 120

// Plan returns n kills for a seed. The first m of a longer plan are the plan of m
// kills, if both are multiples of twenty-five.
func Plan(seed uint64, n int) []Kill {
	r := rand.New(rand.NewPCG(seed, 0))
	var plan []Kill
	for len(plan) < n {
		var round []Kind
		for _, k := range kinds {
			for range bag[k] {
				round = append(round, k)
			}
		}
		r.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		for _, k := range round[:min(len(round), n-len(plan))] {
			plan = append(plan, Kill{
				Kind: k, After: 1 + r.IntN(maxAfter), Pick: r.Uint64(),
				Hold: time.Second + time.Duration(r.IntN(5000))*time.Millisecond,
			})
		}
	}
	return plan
}
