// Package workflows makes every decision of Sojourn and touches nothing outside Temporal:
// what a message leads to, when a sandbox is needed, when it is ended, who must be
// notified. Side effects are in package activities.
//
// A [Session] runs in this order, which continue-as-new repeats:
//
//  1. its state is restored (from the previous run, or empty);
//  2. its handlers are registered, before anything blocks;
//  3. it loops: close, or the next message's turn, or continue as new, or wait.
//
// Handlers validate, detect repeats, and only change the state; the loop acts. So there is
// one turn at a time in whatever order messages arrive. While a turn runs, its activity is
// the only writer of the session's stream: the workflow's own events are sent to it
// meanwhile (see deliver.go).
package workflows
