package chaos

import (
	"math/rand/v2"
	"time"
)

// Kind is a part of the system and how it is ended.
type Kind string

// The kinds of kills, from the mildest to the hardest: a turn that several met
// counts for the hardest.
const (
	// Undisturbed is no kill at all.
	Undisturbed Kind = "none"
	// WorkerTerm asks a worker to stop; a new one follows.
	WorkerTerm Kind = "worker-term"
	// WorkerKill is a SIGKILL for a worker; a new one follows on its folder.
	WorkerKill Kind = "worker-kill"
	// WorkerStop stops a worker for some seconds and wakes it.
	WorkerStop Kind = "worker-stop"
	// StreamAway, ArchiveAway and TemporalAway cut all hosts off from a server
	// for some seconds.
	StreamAway   Kind = "nats-away"
	ArchiveAway  Kind = "s3-away"
	TemporalAway Kind = "temporal-away"
	// WorkerBefore replaces a worker by one of the build before for some seconds.
	WorkerBefore Kind = "worker-before"
	// StackKill is a SIGKILL for all servers and all workers at once; both come
	// back.
	StackKill Kind = "stack-kill"
	// StreamDelete deletes the stream with the events of all sessions.
	StreamDelete Kind = "stream-deleted"
	// ToolKill is a SIGKILL for a process that a tool of the agent's runs.
	ToolKill Kind = "tool-kill"
	// LeaseOver is no kill: the worker was not back within the lease of its
	// agent, which ended the agent. A turn of WorkerKill and milder that was
	// silent for so long and then resumed counts here.
	LeaseOver Kind = "lease-over"
	// HostileTool is no kill: a session of its own, in which a tool does what
	// could keep the session from being closed.
	HostileTool Kind = "hostile-tool"
	// AgentKill is a SIGKILL for the agent's program, RunnerKill for what holds
	// it.
	AgentKill  Kind = "agent-kill"
	RunnerKill Kind = "runner-kill"
	// HostKill ends a worker and all runners of its folder, and deletes the
	// folder; later a new host comes.
	HostKill Kind = "host-kill"
)

// kinds are all, in the order of the table.
var kinds = []Kind{
	Undisturbed, WorkerTerm, WorkerKill, WorkerBefore, WorkerStop, StreamAway, ArchiveAway, TemporalAway, StackKill, StreamDelete, ToolKill,
	LeaseOver, HostileTool, AgentKill, RunnerKill, HostKill,
}

// rank orders kinds by hardness.
func (k Kind) rank() int {
	for i, other := range kinds {
		if other == k {
			return i
		}
	}
	return -1
}

// agentLives says whether the agent's process survives a kill of this kind: its
// turn must then be answered as if nothing had happened.
func (k Kind) agentLives() bool { return k.rank() <= ToolKill.rank() }

// hardest is the hardest of some kinds, Undisturbed of none.
func hardest(of []Kind) Kind {
	out := Undisturbed
	for _, k := range of {
		if k.rank() > out.rank() {
			out = k
		}
	}
	return out
}

// bag is how often each kind comes in twenty-five kills.
var bag = map[Kind]int{
	WorkerKill: 6, WorkerTerm: 3, WorkerBefore: 1, WorkerStop: 2, StreamAway: 1, ArchiveAway: 1, TemporalAway: 1, StackKill: 1, StreamDelete: 1, ToolKill: 2,
	HostileTool: 1, AgentKill: 2, RunnerKill: 2, HostKill: 1,
}

// Kill is one planned kill.
type Kill struct {
	Kind Kind `json:"kind"`
	// After is how many events are heard, over all sessions, since the kill
	// before.
	After int `json:"after"`
	// Pick chooses among what could be killed then.
	Pick uint64 `json:"pick"`
	// Hold is how long a stop or an outage lasts.
	Hold time.Duration `json:"hold"`
}

// maxAfter is the most events between two kills.
const maxAfter = 120

// Plan is the plan of n kills of a seed. The first m of a longer plan are the
// plan of m kills, when both are multiples of twenty-five.
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
