// Package runner is the client side of sojourn-runner, the small static program
// inside a sandbox that owns the agent process and outlives the worker, like
// containerd's shim.
//
// A supervisor holds the agent's pipes. Every line that goes in or out is
// appended to a spool on disk as an [traffic.Record] before anyone reads it; an
// offset is a byte position in that spool, across all its segments and restarts
// of the agent. Any number of clients may attach and read from any offset; a slow
// one delays no other. The death of a client changes nothing: the agent
// continues, and the next client attaches and continues at the exact record.
//
//	status, err := runner.Start(ctx, sb, program, runner.StartSpec{…})
//	conn, err := runner.Attach(ctx, sb, program, status.Socket, token, epoch)
//	defer conn.Close()
//	ack, err := conn.Input(ctx, "message-1", prompt)
//	for d, err := range conn.Records(ctx, ack.Offset) {
//		// d.Record is the line, d.Next the offset to continue from.
//	}
//
// One connection carries everything at once: record streams, inputs and control.
// It works over any [io.ReadWriteCloser]: the stdio of `sojourn-runner attach`
// run by a sandbox's Exec ([Attach]), or the socket itself ([DialSocket]).
//
// The runner has two transports and no knowledge of any agent
// ([StartSpec.Transport]): lines over stdin and stdout, and requests to an HTTP
// server that the agent's process runs, with one stream of server-sent events
// ([HTTPSpec]). In either, the spool holds both directions, one line per record:
// "in" inputs, "out" the agent's output, "err" its process's log, "sig" the
// runner's own records: "start", "exit N", "signal NAME", [EndWithRunner], and
// "events lost" and "events again" of an event stream.
//
// Delivery of inputs is once per id: the runner writes id and bytes to disk
// before it writes them to the agent, and acknowledges a known id without writing
// again, through whichever connection, client or agent process it came. An [Ack]
// reports whether the id went to a former agent process; to send the same data
// again, choose a new id.
//
// An agent and what it starts have the nice value 10, so that workers and servers on the
// same machine answer in time however busy the agents are.
//
// An agent outlives its clients, but not for ever: it ends when its control
// folder is removed or moved, when a lease that was armed runs out
// ([Conn.Lease]), and after [StartSpec.IdleLease] without any request.
//
// Every connection states an epoch. A higher one than seen takes over: older
// connections get [ErrEpoch] from then on. A lower one is refused.
//
// The agent runs in its own PID and mount namespace if the system allows it, so
// that nothing it started survives it; else the supervisor is the subreaper of
// what the agent leaves behind and ends that. [Status] reports which
// ([Isolation]) and why. Linux only: elsewhere sojourn-runner ends with one clear
// error; this package builds everywhere.
package runner
