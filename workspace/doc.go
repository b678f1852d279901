// Package workspace archives a session's files: what the agent works on in a
// sandbox is archived and restored into the next sandbox, and its changes are
// published to subscribers.
//
//	s := workspace.NewSyncer(store, sb, sessionID, epoch)
//	left, err := s.Provision(ctx, initial) // restores, or writes the initial files
//	seen, left, err := s.Sync(ctx)         // archives what changed
//	err = s.Notifier.Publish(seen, emit)   // passes emit the events for what is new
//	seen, left, err = s.SyncLast(ctx)      // before the sandbox ends
//
// A [Syncer] compares the sandbox's files with the archive; each comparison is a
// scan. A [Store] is the archived workspace: one manifest per sync, contents in
// packs. A [Notifier] remembers what was published, so that the scans and the
// runner's watch, which see the same changes, publish each of them once.
//
// Readers need only the store:
//
//	w, err := workspace.Open(ctx, store, sessionID, 0)
//	for f, err := range w.Contents(ctx) { … }
//
// # Layout in the archive
//
// Below sessions/ID/workspace/ are head.json, which names the manifest and is the
// only object that is overwritten, by conditional put; and packs/…, objects of
// some megabytes that hold contents and the manifest's pages.
package workspace
