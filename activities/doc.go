// Package activities holds every side effect of a session, as methods on
// structs that hold their dependencies. [Session] has the light writes that any worker
// can do, [Reconciler] cleans up after sessions that were ended from outside, and [Host]
// has what must happen where the sandbox is. What the machine itself has, such as its
// agents and their leases, is in package host.
//
// [Host.RunTurn] is the heart. Package turn decides what it does. It attaches to the
// agent that the runner keeps, hands it the message once, and appends what it says to
// the stream:
//
//	records → translator (pure) → events → batcher → stream
//
// Everything in it may be done again by another attempt: the prompt is an input with an
// id, which the runner writes once; the records are in the runner's spool; the
// translator starts from the state that the last turn left (the checkpoint); and the
// stream itself says how far the attempt before came, because every event carries its
// position in the spool.
package activities
