// Package opencode is the adapter of OpenCode: how its server is started, which
// requests it gets, and how its output and its database become events.
//
//	a := opencode.New()
//	cmd, err := a.Command(launch)                  // a server, addressed by HTTP
//	tr, err := a.Translator(launch, nil)
//	for _, e := range tr.Step(record) { … }        // what it sent
//	write(tr.Encode("prompt-7", adapters.Prompt{…})) // a request
//	for e, err := range a.Parse(sources) { … }     // what it stored
//
// # How it runs
//
// One server per session listens on a loopback port with a password generated for
// it alone; the runner reads its stream of events and sends it requests, one at a
// time. The opening is the request for a session with the chosen id, which is
// harmless to repeat. Prompts are sent without waiting for their answer, each
// with its model and system prompt. The rules for permissions are in the server's
// environment, as they are when it starts; those that an earlier one stored with the
// session are overruled before the first prompt. Its home and its configuration are
// used by that session only. It has no telemetry; self-update, sharing, snapshots of the
// workspace and the request for a title are off.
//
// The server orders messages by ids that it derives from the time, so the adapter
// does not choose those. It chooses the id of a prompt's first part, by which the
// prompt's block has the id of the host's message ([BlockID]), live and on disk.
// A prompt without an id has the server's.
//
// # One conversation from two sources
//
// The translator and the parser use one emitter, so they agree by construction
// where events and rows do. The rest is described here:
//
//   - Texts, thoughts and calls have the id of their part, a result that id and
//     ":result", the failure of an answer the message's id and ":error". A
//     call's ToolUseID is the model's, which need not be unique.
//   - Blocks are in the order in which things happened. The database has it
//     in the agent's own log of events, to which the server writes everything
//     except for pieces of text. Without a log, the times in ids
//     and parts decide.
//   - A task is a subagent, whose conversation has the id of the call. Its child
//     session is in the call's metadata; one that no call names is a
//     conversation under its own name.
//   - A call that ended with its process stays "running" in the database for
//     ever. It ends as an interrupted error: live with the process, on disk
//     before the next prompt or at the end.
//   - A text that was never completed is empty in the database. Its block ends
//     as an error with the metadata "lost". The failure of a model that the
//     agent would retry for ever, until the adapter stopped it, is a server block.
//   - After an abort or a failure the server reports twice that it is idle. The
//     turn ends once no answer is being written, or with the second report: the
//     end of an answer can't be stored on a full disk.
//   - Other sessions on the same server, which another program must have opened,
//     are conversations by their ids.
//
// The headless mode (`opencode run --format json`) is read too: whole parts only,
// a step at a time, without the output of subagents.
//
// # The database
//
// All of a session, subagents included, is in one SQLite file with a write-ahead
// log, which is the main transcript. It is read from a consistent copy, taken
// while the server writes. For the archive it is exported as JSON lines: the
// schema, then rows as they changed. The agent's log names the messages and parts
// that changed; small tables are written whole when anything in them has changed.
// Rows of keys and accounts are not exported. Imported for another workspace, the
// folders in the rows are those of that workspace: the agent continues with a
// session only in the folder that the session names.
//
// Adapter is safe for concurrent use; a translator is not.
package opencode
