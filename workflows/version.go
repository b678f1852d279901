package workflows

// Change ids of workflow.GetVersion. A recorded history that was made before a
// change replays the path from before it. Each id has the date of the change and
// the condition under which the id and the old path may be removed: when no run
// that started before that date is open or is still kept for a reset. A session's
// run ends with the next continue-as-new, so that is the longest idle time of a
// session plus the namespace's retention.
const (
	// changeRespond, 2026-11-21: an answer is offered until the turn took it or is
	// over; before, an answer that no worker took was refused. May go at 1.0,
	// together with the histories recorded before it.
	changeRespond = "respond-until-taken"
	// changeTakeUp, 2026-11-21: a run that is behind after a reset catches up;
	// before, it failed the message that it was running. May go at 1.0.
	changeTakeUp = "take-up-after-reset"
	// changeResume, 2026-11-21: an execution whose host was lost is resumed on
	// another one; before, its message failed. May go at 1.0.
	changeResume = "resume-after-host-loss"
	// changeInterruptIdle, 2026-11-22: the message of an interrupt that stops only
	// children runs next; before, it was held. May go at 1.0.
	changeInterruptIdle = "interrupt-of-idle-parent"
	// changeHost, 2026-11-22: the search attributes have the host as soon as a turn
	// has a sandbox, and none when its host is lost; before, the end of the turn
	// set it. May go at 1.0.
	changeHost = "host-while-the-turn-runs"
	// changeMakeWay, 2026-11-22: a run makes way for the next one in the middle of
	// a turn; before, at a turn's edge only. May go at 1.0.
	changeMakeWay = "make-way-in-a-turn"
	// changeTreeCost, 2026-11-22: a session's cost has that of its children that
	// have ended; before, it was that of its own turns. May go at 1.0.
	changeTreeCost = "cost-of-the-tree"
	// changeIdleTimeout, 2026-11-22: an idle timeout that is configured while the
	// session is idle counts at once; before, after the next message. May go at 1.0.
	changeIdleTimeout = "idle-timeout-while-idle"
)
