package layering

import (
	"slices"
	"strings"
)

// rule is what some packages must not import. Packages of this repository are named
// without the module's path.
type rule struct {
	name string
	// about reports whether the rule applies to a package.
	about func(pkg string) bool
	// forbids reports whether such a package must not import another one, which is
	// given by its full path.
	forbids func(pkg, imported string) bool
	// deep forbids indirect imports too.
	deep bool
	why  string
}

// rules returns the dependency rules of the design.
func rules() []rule {
	return []rule{
		{
			name:    "event stands on the standard library alone",
			about:   under("event"),
			forbids: func(from, to string) bool { return !standard(to) && (from == "event" || !oneOf(to, "event")) },
			why:     "the language of events must be usable from any program",
		},
		{
			name:  "turn is pure",
			about: under("turn"),
			forbids: func(_, to string) bool {
				return !standard(to) && !oneOf(to, "effects", "event", "limits", "permission", "reducer", "steering", "turn") && to != "github.com/google/uuid"
			},
			why: "what a turn does is decided from facts and signals: no I/O, no clock, no context",
		},
		{
			name:  "effects know conversations and rules",
			about: under("effects"),
			forbids: func(_, to string) bool {
				return !standard(to) && !oneOf(to, "effects", "event", "permission", "reducer")
			},
			why: "whichever attempt looks at a loss judges it alike: no I/O, no clock",
		},
		{
			name:    "limits know events only",
			about:   under("limits"),
			forbids: func(_, to string) bool { return !standard(to) && !oneOf(to, "event", "limits") },
			why:     "workflow and turn judge by the same rule: it does no I/O and reads no clock",
		},
		{
			name:    "steering knows the conversation only",
			about:   under("steering"),
			forbids: func(_, to string) bool { return !standard(to) && !oneOf(to, "event", "reducer", "steering") },
			why:     "what a turn knows of the messages that its agent was handed is pure",
		},
		{
			name:    "permission knows events only",
			about:   under("permission"),
			forbids: func(_, to string) bool { return !standard(to) && !oneOf(to, "event", "permission") },
			why:     "whichever worker reads a request answers it alike: no I/O, no clock",
		},
		{
			name:    "reducer knows events only",
			about:   under("reducer"),
			forbids: func(_, to string) bool { return !standard(to) && !oneOf(to, "event", "reducer") },
			why:     "the fold is pure: nothing but events goes in",
		},
		{
			name:    "no Temporal below the activities",
			about:   under("event", "reducer", "adapters", "sandbox", "runner", "stream", "archive", "workspace"),
			forbids: func(_, to string) bool { return strings.HasPrefix(to, "go.temporal.io/") },
			deep:    true,
			why:     "these parts serve without an orchestrator, and are tested without one",
		},
		{
			name:    "a store knows objects only",
			about:   under("archive/store"),
			forbids: allOursBut("archive/store"),
			why:     "what the objects mean is the archive's: whoever writes another store needs the interface alone",
		},
		{
			name:    "the archive knows no store",
			about:   func(p string) bool { return p == "archive" },
			forbids: func(_, to string) bool { return strings.HasPrefix(to, "github.com/aws/") },
			why:     "what S3 and a folder differ in is behind the interface",
		},
		{
			name:    "workspace knows files",
			about:   under("workspace"),
			forbids: allOursBut("workspace", "archive", "sandbox", "event"),
			why:     "when files are archived, and where their events go, is the activities' to decide",
		},
		{
			name:  "adapters translate",
			about: under("adapters"),
			forbids: func(_, to string) bool {
				return mine(to) && !oneOf(to, "adapters", "event", "permission", "sandbox")
			},
			why: "an adapter knows events and its agent, not who uses it",
		},
		{
			name:    "adapters do not know each other",
			about:   func(pkg string) bool { return agentOf(pkg) != "" },
			forbids: func(pkg, to string) bool { return agentOfPath(to) != "" && agentOfPath(to) != agentOf(pkg) },
			deep:    true,
			why:     "a new agent is one package and one line in adapters/builtin",
		},
		{
			name:    "what is common to agents names none of them",
			about:   commonToAgents,
			forbids: func(_, to string) bool { return agentOfPath(to) != "" || within(to, "adapters/builtin") },
			why:     "only adapters/builtin knows which agents there are",
		},
		{
			name:    "activities do not know workflows",
			about:   under("activities"),
			forbids: func(_, to string) bool { return within(to, "workflows") },
			deep:    true,
			why:     "workflows decide, activities do: the arrow goes one way",
		},
		{
			name:    "a host does not know its activities",
			about:   under("host"),
			forbids: func(_, to string) bool { return oneOf(to, "activities", "workflows") },
			deep:    true,
			why:     "activities use what a host has: the arrow goes one way",
		},
		{
			name:    "a host is a machine's agents, not their turns",
			about:   under("host"),
			forbids: func(_, to string) bool { return oneOf(to, "stream", "workspace", "reducer") },
			why:     "what is streamed and archived of a turn is the activities' to decide",
		},
		{
			name:    "workflows decide only",
			about:   under("workflows"),
			forbids: allOursBut("workflows", "session", "event", "limits", "reducer", "contract", "permission"),
			why:     "a workflow that reaches a store, a stream or a process is not deterministic",
		},
		{
			name:    "an agent's tools use a session as anybody does",
			about:   under("agenttools"),
			forbids: allOursBut("agenttools", "session", "runner", "adapters", "permission", "limits"),
			why:     "what an agent may do with sessions any program may: there is no way into a turn",
		},
		{
			name:    "a fork is made of archives",
			about:   under("session/fork"),
			forbids: allOursBut("session/fork", "archive", "workspace", "adapters", "event"),
			why:     "what a copy has is decided by what is stored, whatever runs",
		},
		{
			name:    "a gateway is a client of sessions",
			about:   under("gateway"),
			forbids: allOursBut("gateway", "session", "event", "archive", "stream"),
			why:     "what HTTP can do every program can do",
		},
		{
			name:    "a program's tools know sessions only",
			about:   under("tools"),
			forbids: allOursBut("tools", "session", "internal/heartbeat"),
			why:     "programs that serve tools import it",
		},
		{
			name:    "what the runner has of tools is their names",
			about:   under("runner"),
			forbids: func(_, to string) bool { return within(to, "session") },
			deep:    true,
			why:     "it is a small program in every sandbox, without clients of any server",
		},
		{
			name:    "a job uses a session as anybody does",
			about:   under("jobs"),
			forbids: allOursBut("jobs", "session", "event", "archive", "workspace", "adapters", "contract", "workflows/timeouts", "internal/heartbeat"),
			why:     "what a job does is possible for every program: it has no way into a turn",
		},
		{
			name:    "batches and schedules use jobs",
			about:   under("batch", "schedules"),
			forbids: allOursBut("batch", "schedules", "jobs", "session", "event", "archive", "workflows/timeouts", "internal/heartbeat"),
			why:     "what is done many times or at times is a job's to know",
		},
		{
			name:  "the contract is names and payloads",
			about: under("contract"),
			forbids: func(_, to string) bool {
				return !standard(to) && !oneOf(to, "session", "event", "limits", "adapters", "permission")
			},
			why: "workflows import it: it does no I/O, and who implements an activity is not its business",
		},
		{
			name:    "the library leaves the server out",
			about:   func(string) bool { return true },
			forbids: func(_, to string) bool { return within(to, "devstack") || pathWithin(to, "go.temporal.io/server") },
			deep:    true,
			why:     "who imports Sojourn does not inherit the Temporal server's dependencies",
		},
		{
			name:    "proof is no part of the product",
			about:   func(pkg string) bool { return !under("test")(pkg) },
			forbids: func(_, to string) bool { return within(to, "test") },
			deep:    true,
			why:     "no program that is shipped answers from a script, and what both sides must have is the reducer's rule, which a test may not be part of",
		},
	}
}

func commonToAgents(pkg string) bool {
	return under("adapters")(pkg) && agentOf(pkg) == "" && pkg != "adapters/builtin"
}

// notAgents are the folders in adapters that are not an agent's.
var notAgents = []string{"builtin", "profiles", "internal"}

// agentOf returns the agent of an adapter's package; "" for other packages.
func agentOf(pkg string) string {
	rest, ok := strings.CutPrefix(pkg, "adapters/")
	agent, _, _ := strings.Cut(rest, "/")
	if !ok || slices.Contains(notAgents, agent) {
		return ""
	}
	return agent
}

func agentOfPath(to string) string {
	pkg, ok := strings.CutPrefix(to, module+"/")
	if !ok {
		return ""
	}
	return agentOf(pkg)
}

// under returns a predicate for packages that are, or are below, one of the folders.
func under(folders ...string) func(string) bool {
	return func(pkg string) bool {
		return slices.ContainsFunc(folders, func(f string) bool { return pathWithin(pkg, f) })
	}
}

// allOursBut forbids all packages of the repository except those in the folders.
func allOursBut(folders ...string) func(pkg, to string) bool {
	return func(_, to string) bool { return mine(to) && !oneOf(to, folders...) }
}

// oneOf reports whether an imported package is, or is below, one of our folders.
func oneOf(to string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return within(to, f) })
}

func within(to, folder string) bool { return pathWithin(to, module+"/"+folder) }

func pathWithin(p, folder string) bool { return p == folder || strings.HasPrefix(p, folder+"/") }

func mine(to string) bool { return pathWithin(to, module) }

// standard reports whether a package is of the standard library: its first element has
// no dot.
func standard(to string) bool {
	first, _, _ := strings.Cut(to, "/")
	return !strings.Contains(first, ".")
}
