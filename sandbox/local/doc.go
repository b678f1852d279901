// Package local implements sandboxes as folders and processes of this machine.
// Linux only; elsewhere [New] returns one clear error.
//
//	p, err := local.New(ctx, local.Options{DataDir: dir, PassEnv: names})
//	if errors.Is(err, local.ErrUnconfined) {
//		// only with UnsafeLocal
//	}
//	if notice := p.Notice(); notice != "" {
//		// report at start that this is not a security boundary
//	}
//
// A sandbox is in DATA/sandboxes/ID with the folders home, workspace, tmp and
// control; a Spec's Workspace is used in place instead. Exec runs plain processes
// of this user, with an environment that is an allow-list. The runner isolates
// the agent by hiding what [sandbox.Paths] lists: the data folder except for the
// sandbox's own folders, and the user's home except for what programs in PATH
// need. The rest of the file system is the machine's: an agent has its user's
// rights there. Its network refuses the machine's own services, by
// [sandbox.Network], if the machine allows a namespace for that.
package local
