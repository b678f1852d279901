package event

// Codes of [ErrorInfo] for what ends a query, and types of errors that cross
// Temporal.
const (
	// CodeAgentFailed: the agent refused, failed or exited.
	CodeAgentFailed = "AgentFailed"
	// CodeNoProgress: the agent was silent for so long that its turn was ended.
	CodeNoProgress = "NoProgress"
	// CodeLimit: the session had used what it may. Its turn was interrupted and
	// continues when the limit is raised.
	CodeLimit = "Limit"
	// CodeTerminated: the session's workflow was ended from outside.
	CodeTerminated = "Terminated"
)
