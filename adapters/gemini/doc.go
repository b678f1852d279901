// Package gemini is the adapter of Gemini CLI: how it is started, how it is
// spoken to, and how what it says and keeps becomes events.
//
//	a := gemini.New()
//	cmd, err := a.Command(launch)               // one long-lived process
//	tr, err := a.Translator(launch, state)
//	for _, e := range tr.Step(record) { … }     // what it said
//	write(tr.Due())                             // its opening, and answers
//	for e, err := range a.Parse(sources) { … }  // what it kept
//
// # How it runs
//
// One process per session speaks the Agent Client Protocol; package acp has the
// protocol, this package the dialect. The agent chooses the id of its session,
// and Prepare finds it again in the header of the chat file. Telemetry,
// self-update and the deletion of old sessions are off, and shell commands run
// without a terminal of their own, because then their output is reported as text.
//
// # Files
//
// The agent names a recording by the minute in which it begins, and begins one
// for every process, also when it is about to load a session: in the minute of
// the session's birth that is the very file that it wants to load, which is
// then empty to it. So before a session is loaded its file is put under a name
// of a minute long gone, in Prepare where it is in the home, in Place where it
// comes from an archive. The agent continues writing to the file that it has
// loaded, and what it leaves beside are files in which nothing was asked
// anything; those are no transcripts. A session that can't be loaded is followed
// by a new one, and its file is main.2.
//
// A chat file only grows. It is read as the log that it is: what a later line
// takes back (a prompt that was cancelled or failed, a history that was
// compressed) was said all the same. A message that is written again, as the
// agent does for every call, adds the calls that are new.
//
// After a kill a prompt may stand there without any answer, and the agent would
// give it to the model together with the next one. Prepare adds a line that
// closes it, in the agent's own words for that; it is no block.
//
// # One conversation from two sources
//
// The protocol reports less than the files keep, and both must give one
// conversation, so the files of a session that was held by the protocol are parsed
// to what it reports:
//
//   - Blocks are named by their place; see package acp. Tool calls have ids.
//   - Text is as the agent keeps it: without invisible characters, HTML comments
//     and white space around it. Thoughts of one run are one block before its text;
//     their subjects are its summary.
//   - A tool's name comes from its call's id. Its input is the command of a shell
//     call, the arguments of an MCP call (up to 500 characters, as the agent tells
//     them), the agent of a delegation, else the title. A call that failed before it
//     was carried out has none.
//   - A result is what the agent shows of it: a text, the change of a file, or
//     nothing.
//   - A call that the user refused is in the results for the model only; a call to
//     a tool that does not exist is reported nowhere.
//   - Errors are in no file: they are the host's to keep. What was being said when
//     a turn was cancelled or failed or the process was killed is marked as lost.
//   - The agent's own slash commands are answered without the model and kept
//     nowhere; their blocks are lost, too, and don't count.
//   - A subagent's thread is in a file of its own, under the agent's ids and with
//     all that it holds. It belongs to the call that has its id, or asked the same.
//
// The headless mode (-o stream-json) is not used here, but its recordings can be
// translated, and its files are known by their one header, where the protocol's
// have two, but for those that began with a minute. It tells the arguments of
// calls, and no thoughts.
//
// Adapter is safe for concurrent use; a translator is not.
package gemini
