// Package stream is the live event log of all sessions, on NATS JetStream.
//
// All sessions of all namespaces share one JetStream stream; every session has
// one subject in it. A [Log] is the view of one namespace:
//
//	log, err := stream.Dial(ctx, "nats://127.0.0.1:4222", stream.Options{})
//	w, err := log.Writer(ctx, "s1", stream.Fence{Epoch: 3, Attempt: 1}, stream.WriterOptions{})
//	last, err := w.Append(ctx, events, stream.Position{Epoch: 3, Offset: 4096})
//
//	for e, err := range log.Read(ctx, "s1", last, stream.ReadOptions{Follow: true}) {
//		…
//	}
//
// # Numbers
//
// Events have sequence numbers that are dense per session and start at 1. Reading
// after N yields N+1 next, or an error: [ErrPurged] if retention removed the next
// event, [ErrGap] if the log itself has a hole. Nothing is skipped.
//
// An append is all or nothing: readers see all of its events or none. One message
// of the stream is one batch of at most [Options.MaxBatch] bytes; a longer batch,
// even of one huge event, is sent as consecutive parts that readers join, and
// counts only with its last part.
//
// # Fences
//
// A writer has a [Fence], the pair (epoch, attempt). The first append of a writer
// is its fence: a visible status event. A writer with a lower fence than the log
// has seen gets [ErrFenced] and must stop for good. Within an epoch attempts must
// grow, also across turns; the log compares them and does not assign them.
//
// # Positions
//
// Every batch carries the [Position] in the agent's spool that it was made from,
// so the log is the resume point: a new writer reads it with [Writer.Tail] and
// continues behind it.
//
// # Lost answers
//
// An append whose answer is lost is sent again under the same id and the same
// expected place; the server accepts one of both, and the log shows which. So a
// lost answer neither duplicates nor loses an event. Appends retry until their
// context ends.
//
// # Reading
//
// Readers use direct gets and a plain subscription to what the server republishes
// after storing. No consumer is made on the server, so none can leak. A session
// without readers and writers costs only its bytes.
package stream
