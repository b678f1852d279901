// Package claude is the adapter of Claude Code: how it is started, what is
// written to it, and how what it prints and keeps becomes events.
//
//	a := claude.New()
//	cmd, err := a.Command(launch)                 // one long-lived process
//	line, err := a.Encode(adapters.Prompt{…})     // a line for its standard input
//	tr, err := a.Translator(nil)
//	for _, e := range tr.Step(record) { … }       // what it said
//	for e, err := range a.Parse(sources) { … }    // what it kept
//
// # How it runs
//
// One process per session speaks JSON lines both ways, with partial messages,
// replays of prompts and its own word on when it is idle. Its home and its
// configuration folder are the session's alone; telemetry and self-update are
// off. The native session id is chosen by us: --session-id begins it, --resume
// continues with it, and which of the two is decided by the transcript that is
// in the home.
//
// A workspace is marked as trusted (hasTrustDialogAccepted) only where nothing
// is asked anyway. In an untrusted workspace the agent ignores the permissions
// that the workspace's own settings give, and says so on standard error;
// instructions, agents, skills and commands of the workspace load all the
// same.
//
// # One conversation from two sources
//
// The translator and the parser write through one emitter, so they agree by
// construction where the native lines do, and the rest is described here:
//
//   - A tool call has the id of the tool use, its result that id and
//     ":result". Text and thinking of the main conversation have the message's
//     id and their position in it; what a subagent says has its line's uuid. A
//     prompt has the uuid that the host chose, see [MessageUUID]; a
//     subagent's prompt the id of its tool use and ":prompt".
//   - A prompt that finds the agent busy appears where the agent takes it up:
//     in the running turn (message:folded) or in a turn of its own
//     (message:own-turn). Several may become one message; it has the last one's
//     id.
//   - A slash command that the agent answers by itself gets a new id on disk.
//     Its block waits for the output and has the output's id and ":command".
//   - What was being said when the process was killed, or a connection was
//     cut, is on no disk. Its block ends as an error with the metadata "lost".
//   - A call or subagent without result when the process ends has failed.
//   - A subagent in the background ends when its notification comes; its
//     output is the last thing it said. The turn lasts until then, and until
//     the program has dealt with the report.
//   - Of a subagent's subagent only its start and end are live.
//
// What the agent tells the model behind the user's back (reminders, caveats,
// expanded commands) makes no blocks, except a skill's text and the summary
// after a compaction. A line of a type that this version does not know becomes
// a native event; a line that is no JSON an error event that holds it.
//
// Adapter is safe for concurrent use; a translator is not.
package claude
