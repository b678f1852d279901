// Package chaos kills parts of a running system at random events and judges
// from outside what became of the sessions.
//
//	report, err := chaos.Run(ctx, chaos.Options{Seed: 1, Kills: 500, Sessions: 40})
//	err = report.Write(os.Stdout)
//	if !report.Good() { … }
//
// A run starts a stack of servers, hosts (workers on data folders of their
// own) and sessions of all agents behind the scripted model. The plan of kills
// and all messages come from the seed; which process a kill meets is also the
// machine's doing, so a seed repeats the plan and not the run.
//
// What it believes is only what a user, an operator or the machine's own
// process table can see: receipts and results of the client, the events that
// subscribers heard, the model server's ledger, the bytes in the archive and in
// the sandboxes, /proc, and the folders of the hosts. The model's requests are
// held against those of the same scripts run undisturbed before the first kill.
//
// [Sweep] is the other half: one script per agent, and the same part killed at
// every single event of it, each in a session of its own.
//
// plan.go, script.go, judge.go and table.go are pure. Only processes that a run
// has started are ended, by their ids.
package chaos
