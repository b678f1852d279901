// Package local makes sandboxes that are folders and processes of this
// machine. Linux only; elsewhere [New] returns one clear error.
//
//	p, err := local.New(ctx, local.Options{DataDir: dir, PassEnv: names})
//	if errors.Is(err, local.ErrUnconfined) {
//		// only with UnsafeLocal
//	}
//	if notice := p.Notice(); notice != "" {
//		// say at start that this is no security boundary
//	}
//
// A sandbox is in DATA/sandboxes/ID with the folders home, workspace, tmp
// and control; a Spec's Workspace is used in place instead. Exec runs plain
// processes of this user, with an environment that is an allow-list. It is the
// runner that shuts the agent in, by what [sandbox.Paths] says to hide: the
// data folder but for the sandbox's own folders, and the user's home but for
// what programs in PATH need. The rest of the file system is the machine's own:
// an agent may do there what its user may. Its network refuses what listens on the
// machine, by [sandbox.Network], where the machine allows a namespace for that.
package local
