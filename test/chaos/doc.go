// Package chaos kills parts of a running system at random events and verifies
// from outside what became of the sessions.
//
//	report, err := chaos.Run(ctx, chaos.Options{Seed: 1, Kills: 500, Sessions: 40})
//	err = report.Write(os.Stdout)
//	if !report.Good() { … }
//
// A run starts a stack of servers, hosts (workers on data folders of their own) and
// sessions of all agents behind the scripted model. The plan of kills and all messages
// come from the seed. Which process a kill meets also depends on the machine, so a seed
// repeats the plan and not the run.
//
// It verifies only what a user, an operator or the machine's process table can see:
// receipts and results of the client, the events that subscribers received, the model
// server's ledger, the bytes in the archive and in the sandboxes, /proc, and the
// folders of the hosts. The model's requests are compared with those of the same
// scripts, run undisturbed before the first kill.
//
// [Sweep] runs one script per agent and kills the same part at every single event of
// it, each time in a session of its own.
//
// plan.go, script.go, verify.go and table.go are pure. Only processes that a run
// has started are ended, by their ids.
package chaos
