package event

// Codes of [ErrorInfo] for what ends a query, and types of errors that cross
// Temporal.
const (
	// CodeAgentFailed: the agent refused, failed or exited.
	CodeAgentFailed = "AgentFailed"
	// CodeNoProgress: the agent was silent for so long that Sojourn ended its turn.
	CodeNoProgress = "NoProgress"
	// CodeLimit: the session reached a limit. Its turn was interrupted and continues
	// when the limit is raised.
	CodeLimit = "Limit"
	// CodeEffectUnknown: a call had begun when its agent was lost, and a rule or a person
	// ended the turn for that.
	CodeEffectUnknown = "EffectUnknown"
	// CodeMaxTicks: the message had made the model calls that it may. Its turn was
	// interrupted and does not continue.
	CodeMaxTicks = "MaxTicks"
	// CodeTerminated: the session's workflow was ended from outside.
	CodeTerminated = "Terminated"
)
