// Package parity compares an agent's live conversation with its transcripts: folding
// the events of either must produce the same conversation.
//
//	diffs, err := parity.Compare(live, restored, parity.Rules{UnsentDepth: 2})
//
// Everything must be equal, ids and order included, except times and durations. What an
// agent's protocol doesn't send is excluded by [Rules], which depend on the agent and
// never on one recording.
package parity
