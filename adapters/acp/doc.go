// Package acp is the adapter of any program that speaks the Agent Client
// Protocol on stdio. Nothing in it knows one of them.
//
// # Which program
//
// The worker's SOJOURN_ACP is a command line in shell words: opencode acp. Locate
// finds the program and returns the whole line with its path filled in, in
// the same words, so that all who need it see it in one value: Launch.Program.
// Assignments before the program become its environment. SOJOURN_ACP_FILES is
// put before the line likewise.
//
// # The transcript
//
// Where such a program keeps its sessions, and in what form, is not known. So
// what was said is the transcript: the program is started by sojourn-runner
// record, which keeps every line that goes either way as a record before it is
// passed on, and Parse is the translator over these records. Both sides of a
// conversation come from one translation of the same records, so they are equal
// by construction, but for what was in the air when a process was killed: that
// is marked as lost live and left out here.
//
// # Going on
//
// Prepare finds the last session that was spoken in, by the records of the last
// process's opening, which the recorder keeps in a file of their own. The agent
// takes it up by session/resume, or by session/load, if it says that it can. If it
// can't, or has lost its session, a new one is begun and a block of the
// conversation says that it remembers nothing.
//
// The agent's own files come along to another host where SOJOURN_ACP_FILES names
// them: globs relative to the home, with colons between. They are archived as one
// snapshot, see [Adapter.Export].
package acp
