// Command bench measures what Sojourn promises about speed and memory, and
// prints each figure beside a floor that was measured in the same run: what
// the bare parts below it cost on this machine at this moment. It judges a
// figure against its target, but never fails for it: a benchmark is no test.
//
//	make bench                         all of it, as a table
//	bin/sojourn-bench --json           the same as one JSON value
//	bin/sojourn-bench --only line,send some parts only
//
// The parts are the real ones: the servers of sojourn-devstack, worker
// processes, runners in their namespaces. Where the agent's own pace would hide
// ours (parts line and send) its place is taken by this program, which writes
// Claude's protocol with the clock's reading in the text; everywhere else the
// agent is the real one, and only the model is scripted. See docs/benchmarks.md.
package main
