// Package agents has the pins of the agent command lines that Sojourn is built
// and tested against: package.json names them, package-lock.json fixes every file
// by its hash, and install.sh puts them into .agents/ of the repository.
//
//	.agents/bin/claude, codex, gemini, opencode   the programs themselves
//	.agents/bin/rg                                agents search files with it
//	.agents/node_modules/.bin/…                   npm's launchers of the same
//
// To run an agent as a child whose signals and exit status matter, start it by
// its link in .agents/bin: npm's codex is a launcher that may outlive the
// program, or the reverse.
//
// To move a pin, change package.json and run
//
//	npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved
//
// in this folder, so that the lock file names no registry. npm refuses a lock
// file whose packages name an optional dependency that it doesn't have, so a
// program for a platform that is not available is removed from the
// optionalDependencies of its package too: opencode is pinned for Linux on x86-64
// alone, the others for all their platforms. On another platform the script ends
// with the name of the agent that is missing.
package agents
