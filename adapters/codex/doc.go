// Package codex is the adapter of Codex: how its app server is started and
// addressed, and how its output and its files become events.
//
//	a := codex.New()
//	prepared, err := a.Prepare(home, launch)      // perhaps a rollout to write
//	cmd, err := a.Command(launch)                 // one long-lived process
//	tr, err := a.Translator(launch, nil)
//	messages, err := tr.Encode("initialize-0", adapters.Initialize{})
//	for _, e := range tr.Step(record) { … }       // what it printed
//	for _, m := range tr.Due() { … }              // what must be written now
//	for e, err := range a.Parse(sources) { … }    // what it stored
//
// # How it runs
//
// One process per session (`codex app-server`) speaks JSON-RPC without its
// version mark, a message per line. The opening is initialize, with its answer
// the notification initialized and thread/resume, and with that one's answer the
// program takes prompts. The ids of requests are the ids of the messages (with an
// ending if one is for the running turn), so answers can be matched by the records
// alone.
//
// No flag chooses a session's id. But a rollout with only its first line is a
// session without a prompt, so [Adapter.Prepare] writes one under the chosen id,
// and every session is resumed.
//
// A prompt is turn/start, which the program folds into the running turn if there
// is one; steering needs nothing else. It carries the host's id of the message,
// which the item then has, live and on disk. An interrupt is sent to the threads
// of subagents first: the main thread's end leaves them running. The permission
// mode is the approval policy of the thread: never, or untrusted, under which the
// program asks before every command, file change and MCP tool. Its own sandbox is
// off, because the session's is the boundary.
//
// # One conversation from two sources
//
// The app server and the rollouts have the same items under the same ids, and
// both use one emitter. The rest is described here:
//
//   - A message of the user has the host's id, else its item's. A tool call has
//     the call's id, its result that id and ":result", the failure of a turn
//     the turn's id and ":error".
//   - The input of a command is the script, without the shell around it. The
//     model's names for the tool (exec_command, shell, …) are not
//     sent live: the tool is "shell", the one that changes files "apply_patch".
//   - A rollout has the model's calls and the items in separate lines. An
//     item's place follows from its own times; a call without an item appears only
//     where the live stream has it.
//   - A call that was refused has a result once the turn continues. One whose turn
//     ends, and one that continues in the background, has none.
//   - The program reports a command some time after the model has asked for it,
//     and writes an item before it sends it. What was broken off within half
//     a second, or by the death of the process, is therefore in neither
//     side: the live block ends as an error with the metadata "lost".
//   - The program's own models call tools by scripts in JavaScript. The script is
//     on disk only, and a call that it makes is on disk only if it has come
//     to its end within the turn, under the program's id. A call that was
//     refused, broken off, or continues in the background is live and not on
//     disk: its blocks have the source "server", for the host to keep; those
//     of a subagent are lost.
//   - Subagents of those models are a team: they have names, write to each other,
//     and start further subagents. Their prompts are sealed.
//   - A subagent's conversation has the id of the call that started it. Its
//     rollout is a separate file that names its parent. The session is idle
//     when the last of its threads is.
//   - The output of `codex exec --json` can be translated too. It numbers items anew in
//     each process, and has neither subagents' threads nor what changed in a
//     file; the rollouts that it makes are parsed without the latter.
//   - A rollout has a prompt in two lines, of which the second has its id.
//     [Adapter.Complete] adds that one if the program was killed in between.
//   - What happens at once has no order on disk but that of its milliseconds. A block that
//     the live stream has elsewhere is followed by block:placed, which the host keeps.
//
// What the program sends the model without showing the user (its instructions,
// the environment, reports of subagents) makes no blocks. Retries, warnings and
// lines on standard error are log events. A notification or item of a type that
// this version does not know becomes a native event; a line that is not JSON an
// error event that holds it.
//
// Adapter is safe for concurrent use; a translator is not.
package codex
