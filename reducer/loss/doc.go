// Package loss keeps what subscribers were shown and no transcript of the agent's
// holds. An agent streams and writes independently, so its death takes from both
// sides, and a living one takes back what an interrupt cut off. It is pure.
//
//	Persisted     what the transcripts have, of what a turn is compared with
//	Difference    the events that make both sides equal
//	Keep          the same of an agent that is alive: what it took back
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
//	D5 Nothing that was seen goes.
//	D6 Total and pure, on any two states.
//	D7 A naive rule has the same blocks, in the same order.
package loss
