// Package acp implements the client side of the Agent Client Protocol as a pure
// step: records in, events and due messages out, no connection, no goroutine, no
// clock. The adapters of agents that speak the protocol share it and describe
// their differences in a [Dialect].
//
//	tr, err := acp.New(dialect, launch, state)
//	for _, e := range tr.Step(record) { … } // of either direction
//	write(tr.Due())                         // what the protocol requires now
//	messages, err := tr.Encode("prompt-7", adapters.Prompt{Text: "…"})
//
// # The opening
//
// Encode(Initialize) is the first line to a new process. After its answer Due
// returns the next steps of the opening: session/load of the native session that
// the launch resumes, else session/new. A load that fails makes an error event,
// and a new session replaces it: see [Translator.Session]. Prompts get ErrNotYet
// until the session is open, and ErrRefused when it will never be.
//
// What an agent replays of its history after session/load makes no blocks. Some
// agents answer before they have replayed it all; for them [Dialect.Settle]
// repeats a request until an answer arrives with nothing replayed before it.
//
// # Identity
//
// Requests have the id of their message, so answers are matched by the records
// alone. The protocol has ids only for tool calls, so blocks are named by their
// place, which an agent's own files have as well: a prompt by its session and
// number ([TurnID]), text and thoughts by the prompt and the number of their run
// ([TextID], [ThoughtID]). A run is the agent's output between two tool calls. If
// agents name their messages, a run also ends where another message begins. The
// request for an old session notes how many prompts its files have.
//
// # What is not on disk
//
// When a turn is cancelled or fails, or the process ends, unfinished text and the
// calls without a result are in no file of the agent. Their blocks end as errors
// with the metadata "lost". The block of the error itself has the source
// "server": the host keeps it.
//
// # Why not a library
//
// The types of github.com/coder/acp-go-sdk were tried for the decoding. They
// decode each update into a map and then into one variant after the other, and
// refuse a variant that they do not know; its connection owns goroutines and
// numbers its requests. Here an unknown update must be kept and a line be
// decoded once, so the few structs needed are in this package.
package acp
