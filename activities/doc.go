// Package activities holds every side effect of a session, as methods on structs that hold
// their dependencies. [Session] has the light writes that any worker can do, [Reconciler]
// cleans up after sessions that were ended from outside, and [Host] has what must happen
// where the sandbox is. What the machine has, such as its agents and their leases, is in
// package host.
//
// [Host.RunTurn] is the core. Package turn decides what it does. It attaches to the agent
// that the runner keeps, sends it the message once, and appends its output to the stream:
//
//	records → translator (pure) → events → batcher → stream
//
// Another attempt may repeat everything in it: the prompt is an input with an id, which the
// runner writes once; the records are in the runner's spool; the translator starts from the
// state that the last turn left (the checkpoint); and the stream shows how far the attempt
// before came, because every event carries its position in the spool.
package activities
