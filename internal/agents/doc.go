// Package agents holds the pins of the agent command lines that Sojourn is
// built and tested against: package.json names them, package-lock.json fixes
// every file by its hash, and install.sh puts them into .agents/ of the
// repository. To move a pin, change package.json and run
//
//	npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved
//
// in this folder, so that the lock file names no registry.
package agents
