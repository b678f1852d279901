// Package turn decides what a turn does: one message sent to an agent, until it is
// answered. It is pure: no I/O, no clock, no context, no goroutine. Package activities is
// the shell around it, which collects facts, asks for a plan, and carries out actions.
//
//	Decide(Facts) → Plan         what an attempt does, by a table of rules
//	Machine.Step(Signal) → []Action   what a running turn does next
//	History                      what the stream has of an execution, in one pass
//	Message.Lost                 what was streamed and is persisted nowhere is kept, by package loss
//
// A turn may be attempted any number of times, by any worker of its host, and each attempt
// may die anywhere. What an attempt needs of earlier ones is in four places, which outlive
// it: the spool (the agent's output and input), the stream (the events, each with its place
// in the spool), the host's checkpoint (where the turn's records start, and how the last
// one ended), and the agent's own transcripts.
//
// The table of rules with a scenario for each, and the machine as a picture, are in
// docs/turn.md, which is generated from this package. testdata has the scenarios;
// TestTurnsAtRandom searches orders of events that no scenario has.
package turn
