// Package host is this machine's side of the sandboxes on it. [Host] has
//
//   - their slots: how many sandboxes the machine may hold, and which idle one is
//     evicted for a new one ([Slots], [Host.TakeSlot]);
//   - the agents in them: found, attached to, started and stopped, with the connection
//     that is kept between turns ([Agent], [Host.Agent]), and their homes ([Home]);
//   - the leases that end orphaned agents: in a turn, acknowledged heartbeats renew the
//     lease ([Heartbeater]), in a paused one Temporal's report of the pause
//     ([Host.KeepPaused]), between turns a live worker ([Host.KeepIdleLeases]);
//   - what the next worker must find: how far the turns have come ([Checkpoints]), and
//     which activities were running ([Host.FailPredecessor]).
//
// It does no work of a turn and uses neither stream nor archive: package activities does
// that, with what is here.
package host
