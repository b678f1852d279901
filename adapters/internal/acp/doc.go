// Package acp speaks the Agent Client Protocol with an agent's process as a
// pure step: records in, events and due messages out, no connection, no
// goroutine, no clock. The adapters of agents that speak the protocol share it
// and say by a [Dialect] what is theirs.
//
//	tr, err := acp.New(dialect, launch, state)
//	for _, e := range tr.Step(record) { … } // what was said, either way
//	write(tr.Due())                         // what the protocol wants said now
//	messages, err := tr.Encode("prompt-7", adapters.Prompt{Text: "…"})
//
// # The opening
//
// Encode(Initialize) is the first line to a new process. From its answer on the
// opening is led by Due: session/load of the native session that the launch
// resumes, else session/new. A load that fails makes an error event, and a
// new session takes its place: see [Translator.Session]. Prompts get ErrNotYet
// until the session is open, and ErrRefused when it will never be.
//
// What an agent replays of its history after session/load makes no blocks.
// Some agents answer before they have replayed it all; for them
// [Dialect.Settle] names a request that is sent again and again until an answer
// comes with nothing replayed before it.
//
// # Identity
//
// Requests have the id of the message that they are, so answers are matched by
// the records alone. The protocol names tool calls and nothing else, so blocks
// are named by where they stand, which an agent's own files have as well: a
// prompt by its session and number ([TurnID]), text and thoughts by the prompt
// and the number of the run that they stand in ([TextID], [ThoughtID]). A run
// is what the agent says between two tool calls. Agents that name their
// messages end a run also where another message begins.
//
// # What is on no disk
//
// When a turn is cancelled or fails, or the process ends, what was being said
// and the calls without a result are in no file of the agent's. Their blocks
// end as errors with the metadata "lost". The block of the error itself has the
// server for its source: the host keeps it.
//
// # Why not a library
//
// The types of github.com/coder/acp-go-sdk were tried for the decoding. They
// decode each update into a map and then into one variant after the other, and
// refuse a variant that they do not know; its connection owns goroutines and
// numbers its requests. Here an unknown update must be kept and a line be
// decoded once, so the few structs needed are in this package.
package acp
