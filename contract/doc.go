// Package contract is the interface of workflows and activities: the names under which
// activities are registered, and their inputs and outputs. It does no I/O, so that a
// workflow may import it. Names and JSON fields are in the histories of open sessions: they
// change with a change id.
package contract

// Names of the activities, as the workflows call them.
const (
	// On any worker: light writes to stream and archive.
	ActivityBegin   = "Begin"
	ActivityEmit    = "Emit"
	ActivityFinish  = "Finish"
	ActivityCatchUp = "CatchUp"
	// On the host that has the sandbox, or makes it.
	ActivityCreateSandbox = "CreateSandbox"
	ActivityRunTurn       = "RunTurn"
	ActivitySendControl   = "SendControl"
	ActivityEndSandbox    = "EndSandbox"
	ActivityDescribeHost  = "DescribeHost"
	ActivityDrainHost     = "DrainHost"
	ActivityCheck         = "Check"
	// On any worker, for sessions whose workflow was ended from outside.
	ActivityDescribeTerminated  = "DescribeTerminated"
	ActivityRecordTermination   = "RecordTermination"
	ActivityReconcileTerminated = "ReconcileTerminated"
	// On any worker, for idle sessions whose host is lost.
	ActivityEvictLost = "EvictLost"
	// On any worker, for child sessions that their parent's run did not start.
	ActivityAwaitChild     = "AwaitChild"
	ActivityParentSandbox  = "ParentSandbox"
	ActivityCancelChildren = "CancelChildren"
)
