// Command bench measures Sojourn's speed and memory, and prints each figure beside a
// floor measured in the same run: what the bare parts below it cost on this machine at
// this moment. It compares a figure with its target, but never fails because of it: a
// benchmark is no test.
//
//	make bench                         all of it, as a table
//	bin/sojourn-bench --json           the same as one JSON value
//	bin/sojourn-bench --only line,send some parts only
//
// The parts are the real ones: the servers of sojourn-devstack, worker processes,
// runners in their namespaces. If the agent's own speed would hide Sojourn's (parts
// line and send), this program replaces the agent. It writes Claude's protocol with the
// clock's reading in the text. Everywhere else the agent is the real one, and only the
// model is scripted. See docs/benchmarks.md.
package main
