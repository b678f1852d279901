// Package effects finds the calls of a lost agent whose effect is unknown: they had
// started, and have no result. It is pure.
//
//	Calls     the state of an execution's calls, from its events and transcripts
//	Call      one whose effect is unknown
//	Tell      the text about calls for an agent
//	Request   the question about calls to a person
//
// In the conversation such a call has a result of Sojourn's own, with isError and the
// metadata "effect": "unknown". The agent's blocks stay as its transcripts have them. An
// adapter that itself makes a result for a call that never got one adds the same metadata.
package effects
