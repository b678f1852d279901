// Package gemini is the adapter of Gemini CLI: how it is started and addressed,
// and how its output and its files become events.
//
//	a := gemini.New()
//	cmd, err := a.Command(launch)               // one long-lived process
//	tr, err := a.Translator(launch, state)
//	for _, e := range tr.Step(record) { … }     // what it printed
//	write(tr.Due())                             // its opening, and answers
//	for e, err := range a.Parse(sources) { … }  // what it stored
//
// # How it runs
//
// One process per session speaks the Agent Client Protocol; package acp has the
// protocol, this package the dialect. The agent chooses the id of its session,
// and Prepare finds it again in the header of the chat file. A session that a tool
// has with the same program in the same home is told apart by its time, see ours.go,
// and is neither continued nor a transcript. Telemetry,
// self-update and the deletion of old sessions are off, and shell commands run
// without a terminal, because then their output is reported as text.
//
// # Files
//
// The agent names a recording by the minute in which it starts, and starts one
// for every process, also when it is about to load a session: in the minute in
// which the session was started, that is the very file that it wants to load,
// which it then finds empty. So before a session is loaded its file is given the
// name of a minute in the past: by Prepare if it is in the home, by Place if it
// comes from an archive. The agent continues to write to the file that it has
// loaded; the other files that it leaves have no prompt and are no transcripts. A
// session that can't be loaded is followed by a new one, whose file is main.2. Of a
// new session it records the messages and the calls separately, in one file unless
// the minute ends in between: then that session is left, and another one opened.
//
// A chat file only grows. It is read as a log: what a later line withdraws (a
// prompt that was cancelled or failed, a history that was compressed) is emitted
// all the same. A message that is written again, as the agent does for every
// call, adds the calls that are new.
//
// After a kill a prompt may have no answer, and the agent would send it to the
// model together with the next one. Prepare adds a line that closes it, with the
// agent's own text for that; it makes no block. An agent that had the time has taken the
// prompt back, with all that was done for it, as it does with a prompt that fails or is
// cancelled. If the turn is to be continued, Prepare adds both again, in one line that
// makes no blocks either.
//
// # One conversation from two sources
//
// The protocol reports less than the files have, and both must make one
// conversation, so the files of a session that was held over the protocol are
// parsed to what it reports:
//
//   - Blocks are named by their place; see package acp. Tool calls have ids. Prepare
//     counts the prompts in the files of a session that is continued: the agent
//     forgets those that were interrupted or refused, and does not replay them.
//   - Text is as the agent keeps it: without invisible characters, HTML comments
//     and white space around it. Thoughts of one run are one block before its text;
//     their subjects are its summary.
//   - A tool's name comes from its call's id. Its input is the command of a shell
//     call, the arguments of an MCP call (up to 500 characters, as the agent sends
//     them), the agent of a delegation, else the title. A call that failed before it
//     was carried out has none.
//   - A result is what the agent shows of it: a text, the change of a file, or
//     nothing.
//   - A call that the user refused is in the results for the model only; a call to
//     a tool that does not exist is reported nowhere.
//   - Errors are in no file: the host keeps them. What was unfinished when
//     a turn was cancelled or failed or the process was killed is marked as lost.
//   - The agent's own slash commands are answered without the model and kept
//     nowhere; their blocks are lost, too, are named by their requests and don't
//     count.
//   - A subagent's thread is in a separate file, under the agent's ids and with
//     all its content. Its call has its id, or the same prompt.
//
// The headless mode (-o stream-json) is not used here, but its recordings can be
// translated, and its files are recognised by their one header, where the
// protocol's have two, except for those that began with a minute. It has the
// arguments of calls, and no thoughts.
//
// Adapter is safe for concurrent use; a translator is not.
package gemini
