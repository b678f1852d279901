// Package host is this machine's side of the sandboxes on it. [Host] has
//
//   - their slots: how many sandboxes the machine may hold, and which idle one is
//     evicted for a new one ([Slots], [Host.TakeSlot]);
//   - the agents in them: found, attached to, started and stopped, with the connection
//     that is kept between turns ([Agent], [Host.Agent]), and their homes ([Home]);
//   - the leases that end an agent which nobody is in charge of: in a turn it lives on
//     acknowledged heartbeats ([Heartbeater]), in a paused one on what Temporal says
//     ([Host.KeepPaused]), between turns on a worker that is there
//     ([Host.KeepIdleLeases]);
//   - what a worker must find that comes after this one: how far the turns have come
//     ([Checkpoints]), and which activities were under way ([Host.FailPredecessor]).
//
// It does no work of a turn and knows neither stream nor archive as stores: package
// activities does that, with what it has here.
package host
