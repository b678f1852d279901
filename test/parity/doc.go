// Package parity compares what an agent said live with what its transcripts
// hold: folding the events of either must give the same conversation.
//
//	diffs, err := parity.Compare(live, restored, parity.Rules{UnsentDepth: 2})
//
// Everything must be equal, ids and order included, but for times and
// durations. What an agent's protocol cannot tell is dropped by [Rules], which
// are data about the agent and never about one recording.
package parity
