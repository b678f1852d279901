package turn

// Facts are the inputs of an attempt's plan, before it does anything. Facts that are expensive to get
// are nil until a plan asks for them.
type Facts struct {
	ExecutionID, MessageID string
	// Damage is why no attempt can continue in the sandbox: the checkpoint can't be read,
	// the spool is shorter than in the checkpoint, the runner has an unknown version; ""
	// for none.
	Damage string
	// Unstartable is why the agent can't be started in the sandbox; "" if it can.
	Unstartable string
	// Checkpoint is what earlier attempts have saved on this host.
	Checkpoint Checkpoint
	// Terminated is how the session's workflow was ended; "" while it is open.
	Terminated string
	// HostLost reports whether the execution ran before, on a host that was lost.
	HostLost bool
	// Stream is what the stream has of the execution; nil before it was read.
	Stream *StreamFacts
}

// Checkpoint is the part of a host's checkpoint that a plan depends on.
type Checkpoint struct {
	// Ended and EndedMessage name the last execution that ended.
	Ended, EndedMessage string
	// Unarchived reports whether its end may be missing in the archive.
	Unarchived bool
	// Open and OpenMessage name the execution that started and did not end. The message is
	// "" in checkpoints of older builds.
	Open, OpenMessage string
	// RunnerLost reports whether its agent was lost with its runner.
	RunnerLost bool
	// Interrupted reports whether it was being interrupted, Parked whether it was being
	// parked.
	Interrupted, Parked bool
}

// StreamFacts are what the stream has of an execution.
type StreamFacts struct {
	// Ended reports whether it has the execution's end.
	Ended bool
}

// Kind is what an attempt does.
type Kind string

// The kinds of plans.
const (
	// Replace archives the sandbox and ends it; the turn is resumed in another.
	Replace Kind = "replace"
	// Answer returns the checkpoint's result.
	Answer Kind = "answer"
	// Archive archives what an ended turn left, and returns its result.
	Archive Kind = "archive"
	// Forget refuses an execution that never started here.
	Forget Kind = "forget"
	// End ends the turn's agent, reads what it wrote until then, and fails the turn.
	End Kind = "end"
	// Read reads the stream's part of the execution, and decides again.
	Read Kind = "read"
	// Conclude takes the stream's end: the spool is read up to it.
	Conclude Kind = "conclude"
	// Adopt takes the stream's end of another host, and archives the rest.
	Adopt Kind = "adopt"
	// Resumed continues a turn whose runner or host was lost.
	Resumed Kind = "resume"
	// ParkTurn stops the agent and archives what it left: the turn waits for a person
	// without it.
	ParkTurn Kind = "park"
	// Reattach continues with the agent that the previous attempt started.
	Reattach Kind = "reattach"
	// Start prompts the agent.
	Start Kind = "start"
)

// Plan is what an attempt does, and by which rule.
type Plan struct {
	Kind Kind
	Rule Rule
}

// Rule is a row of the table of [Decide].
type Rule struct {
	// Name is unique, and names the rule's scenario.
	Name string
	// When is the condition as text.
	When string
	Kind Kind
	// Reason is why this is right.
	Reason string

	applies func(Facts) bool
}

// Rules is the table: the first rule that applies decides. It covers every way in which a
// turn's attempts can end.
var Rules = []Rule{
	{
		Name: "damaged", When: "checkpoint, spool and runner contradict each other, or can't be read",
		Kind: Replace, Reason: "nobody knows what was streamed of this spool; the archive is whole",
		applies: func(f Facts) bool { return f.Damage != "" },
	},
	{
		Name: "unstartable", When: "the turn began here, its agent is gone and can't be started again",
		Kind: Replace, Reason: "another host may be able to; if none is, the turn fails there and says what was lost",
		applies: func(f Facts) bool { return f.Unstartable != "" && f.begun() && f.Terminated == "" },
	},
	{
		Name: "answered", When: "the checkpoint has the end of this execution, archived",
		Kind: Answer, Reason: "only Temporal does not know it yet",
		applies: func(f Facts) bool { return f.ended() && !f.Checkpoint.Unarchived },
	},
	{
		Name: "unarchived", When: "the checkpoint has the end of this execution, not archived",
		Kind: Archive, Reason: "the worker died between the end and the archive",
		applies: Facts.ended,
	},
	{
		Name: "never-began", When: "the session's workflow is gone, and the execution never began here",
		Kind: Forget, Reason: "a message that nobody waits for is not asked",
		applies: func(f Facts) bool { return f.Terminated != "" && !f.begun() },
	},
	{
		Name: "unread", When: "the execution began before, here or on a host that was lost, and the stream was not read yet",
		Kind: Read, Reason: "it may have ended",
		applies: func(f Facts) bool { return (f.begun() || f.HostLost) && f.Stream == nil },
	},
	{
		Name: "ended", When: "the execution began here, and the stream has its end",
		Kind: Conclude, Reason: "an execution has one end: nothing is asked again; the spool is read up to it, for the checkpoint",
		applies: func(f Facts) bool { return f.begun() && f.Stream.Ended },
	},
	{
		Name: "host-lost-ended", When: "the execution ran on a host that was lost, and ended there",
		Kind: Adopt, Reason: "an execution has one end; what was streamed and not archived is kept",
		applies: func(f Facts) bool { return f.HostLost && !f.begun() && f.Stream.Ended },
	},
	{
		Name: "terminated", When: "the session's workflow is gone, and the execution began here",
		Kind: End, Reason: "the agent must do nothing more; what it did is streamed and archived",
		applies: func(f Facts) bool { return f.Terminated != "" },
	},
	{
		Name: "parked", When: "an attempt before was parking the execution",
		Kind: ParkTurn, Reason: "its agent may have been stopped; the requests are open, and their answers resume the turn",
		applies: func(f Facts) bool { return f.begun() && f.Checkpoint.Parked },
	},
	{
		Name: "host-lost", When: "the execution ran on a host that was lost, and did not end",
		Kind: Resumed, Reason: "the agent continues from its restored transcript, or is asked again",
		applies: func(f Facts) bool { return f.HostLost && !f.begun() },
	},
	{
		Name: "runner-lost", When: "the agent was killed with its runner in this execution",
		Kind: Resumed, Reason: "as after the loss of a host, in the same sandbox",
		applies: func(f Facts) bool { return f.begun() && f.Checkpoint.RunnerLost },
	},
	{
		Name: "interrupted", When: "an attempt before began the execution and was interrupting it",
		Kind: Reattach, Reason: "the interrupt continues where it was: attempts that come and go don't postpone it",
		applies: func(f Facts) bool { return f.begun() && f.Checkpoint.Interrupted },
	},
	{
		Name: "begun", When: "an attempt before began the execution",
		Kind: Reattach, Reason: "the spool has what the agent wrote meanwhile; the runner knows what it was asked",
		applies: Facts.begun,
	},
	{
		Name: "new", When: "nothing is known of the execution",
		Kind: Start, Reason: "the message is asked, once",
		applies: func(Facts) bool { return true },
	},
}

// Decide returns the plan for the facts. It is total: one rule always applies.
func Decide(f Facts) Plan {
	for _, r := range Rules {
		if r.applies(f) {
			return Plan{r.Kind, r}
		}
	}
	panic("turn: the last rule applies to everything")
}

// begun reports whether an earlier attempt started the execution here. After a reset
// another message may have its id.
func (f Facts) begun() bool {
	c := f.Checkpoint
	return c.Open != "" && c.Open == f.ExecutionID && (c.OpenMessage == "" || c.OpenMessage == f.MessageID)
}

func (f Facts) ended() bool {
	return f.Checkpoint.Ended != "" && f.Checkpoint.Ended == f.ExecutionID && f.Checkpoint.EndedMessage == f.MessageID
}
