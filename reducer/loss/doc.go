// Package loss keeps what was streamed to subscribers and is in no transcript of
// the agent. An agent streams and persists independently, so a crash loses from
// both sides, and a running one withdraws what an interrupt cut off. It is pure.
//
//	Persisted     the part of the transcripts that a turn is compared with
//	Difference    the events that make both sides equal
//	Keep          the same for a running agent: what it withdrew
//	ServerBlocks  the place of each of the server's events, for Sojourn's own transcript
//	Order         which blocks of a conversation are permanent
//
// [Difference] has invariants, each with a property test by its number
// (difference_test.go), over conversations whose agent died anywhere between streaming
// and writing.
//
//	D1 Live with all its events, and restored with the server's at their places, are equal.
//	D2 Equal states have no difference.
//	D3 Live with the difference has no difference any more.
//	D4 Nothing that a transcript has becomes the server's.
//	D5 Nothing that was streamed disappears.
//	D6 Total and pure, on any two states.
//	D7 A naive rule makes the same blocks, in the same order.
package loss
