// Package acp is the adapter of any program that speaks the Agent Client Protocol
// on stdio. It is specific to none of them.
//
// # Which program
//
// The worker's SOJOURN_ACP is a command line in shell words: opencode acp. Locate
// finds the program and returns the whole line with its path filled in, in the
// same words, so that every user has it in one value: Launch.Program. Assignments
// before the program become its environment. SOJOURN_ACP_FILES is put before the
// line likewise.
//
// # The transcript
//
// Where such a program keeps its sessions, and in what form, is not known. So the
// exchange itself is the transcript: the program is started by sojourn-runner
// record, which writes every line of either direction to a file before it is
// passed on, and Parse is the translator over these records. Both sides of a
// conversation are one translation of the same records, so they are equal by
// construction, except for what was in transit when a process was killed: that is
// marked as lost live and left out here.
//
// # Resuming
//
// Prepare finds the last session that had a prompt, by the records of the last
// process's opening, which the recorder keeps in a separate file. The agent
// continues it with session/resume, or with session/load, if it reports that it
// can. If it can't, or has lost its session, a new one is started and a block of
// the conversation says that it remembers nothing.
//
// The agent's own files are moved to another host if SOJOURN_ACP_FILES names
// them: globs relative to the home, separated by colons. They are archived as one
// snapshot, see [Adapter.Export].
package acp
