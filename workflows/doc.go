// Package workflows makes every decision of Sojourn and touches nothing
// outside Temporal: what a message leads to, when a sandbox is needed, when it
// is ended, who must be notified. Side effects are in package activities.
//
// A [Session] runs in this order, which continue-as-new repeats:
//
//  1. its state is restored (from the run before, or empty);
//  2. its handlers are registered, before anything blocks;
//  3. it loops: close, or the next message's turn, or continue as new, or wait.
//
// Handlers validate, guard for repeats, and only change the state; the loop
// acts. So there is one turn at a time however messages come. While a turn
// runs its activity is the one writer of the session's stream: what the
// workflow itself has to say meanwhile is handed to it (see deliver.go).
package workflows
