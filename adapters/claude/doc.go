// Package claude is the adapter of Claude Code: how it is started, what is
// written to it, and how its output and its files become events.
//
//	a := claude.New()
//	cmd, err := a.Command(launch)                 // one long-lived process
//	tr, err := a.Translator(launch, nil)
//	messages, err := tr.Encode("prompt-1", adapters.Prompt{…}) // for its standard input
//	for _, e := range tr.Step(record) { … }       // what it printed
//	for e, err := range a.Parse(sources) { … }    // what it stored
//
// # How it runs
//
// One process per session exchanges JSON lines, with partial messages, replays of
// prompts and reports of when it is idle. Its home and its configuration folder
// are used by that session only; telemetry and self-update are off. Sojourn
// chooses the native session id: --session-id starts it, --resume continues with
// it, and the transcript in the home decides which.
//
// Every process can ask the host, also one that was started to run everything: the
// session's answer may change while it lives. For the same reason no workspace is
// marked as trusted (hasTrustDialogAccepted): in an untrusted one the agent ignores
// the permissions in the workspace's own settings, and reports that on standard error;
// instructions, agents, skills, commands and MCP servers of the workspace are loaded all
// the same.
//
// # One conversation from two sources
//
// The translator and the parser use one emitter, so they agree by construction
// where the native lines do. The rest is described here:
//
//   - A tool call has the id of the tool use, its result that id and
//     ":result". Text and thinking of the main conversation have the message's
//     id and their position in it; a subagent's have their line's uuid. A
//     prompt has the uuid that the host chose, see [MessageUUID]; a
//     subagent's prompt the id of its tool use and ":prompt".
//   - A prompt that finds the agent busy appears where the agent reads it:
//     in the running turn (message:folded) or in a separate turn
//     (message:own-turn). Several may become one message; it has the last one's
//     id.
//   - A slash command that the agent answers by itself gets a new id on disk.
//     Its block waits for the output and has the output's id and ":command".
//   - A text that was unfinished when the process was killed, or a connection
//     was cut, is not on disk. Its block ends as an error with the metadata "lost".
//   - A call or subagent without result when the process ends has failed.
//   - A subagent in the background ends with its notification; its
//     output is its last text. The turn lasts until then, and until
//     the program has handled the report.
//   - Of a subagent's subagent only its start and end are live.
//
// What the agent sends the model without showing the user (reminders, caveats,
// expanded commands) makes no blocks, except a skill's text and the summary after
// a compaction. A line of a type that this version does not know becomes a native
// event; a line that is not JSON an error event that holds it.
//
// Adapter is safe for concurrent use; a translator is not.
package claude
