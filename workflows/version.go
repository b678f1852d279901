package workflows

// Change ids of workflow.GetVersion. A recorded history that was made before a change
// replays the path from before it. Each id is a constant here, with the date of the change
// and the condition under which the id and the old path may be removed: when no run that
// started before that date is open or is still kept for a reset. A session's run ends with
// the next continue-as-new, so that is the longest idle time of a session plus the
// namespace's retention.
//
// There are none yet: the first histories that replay for ever are in testdata/frozen.
