// Package sandbox defines the environment in which an agent runs: a [Provider]
// makes, finds and lists sandboxes; a [Sandbox] runs commands, copies files in
// and out, and ends.
//
// A sandbox has four areas, see [Area]:
//
//	home       the agent's HOME: its config folder and native transcripts;
//	           one per session, never the user's own
//	workspace  what the agent works on; may be a folder of the user, in place
//	tmp        the agent's TMPDIR
//	control    the runner's: spool, journal, lock, log; the agent does not see
//	           it if the system allows
//
// The order of use:
//
//	sb, err := provider.Create(ctx, sandbox.Spec{ID: "s1-e3", SessionID: "s1", Epoch: 3})
//	err = sb.CopyIn(ctx, sandbox.AreaHome, sandbox.Files(files...))
//	p, err := sb.Exec(ctx, sandbox.Command{Argv: []string{"git", "status"}})
//	for f, err := range sb.CopyOut(ctx, sandbox.Selection{Area: sandbox.AreaHome}) { … }
//	err = sb.Terminate(ctx)
//
// Package runner starts agents, through Exec.
//
// Nothing that a sandbox is given grants access to Sojourn's own services: its
// environment is an allow-list (see [Environment]), its traffic goes over the
// stdio of Exec, and every path from outside is resolved inside its area. Package
// sandboxtest has the tests that every provider must pass.
package sandbox
