package opencode

import (
	"github.com/sojourn-run/sojourn/adapters"
)

// launch returns a complete one.
func launch() adapters.Launch {
	a := New()
	return adapters.Launch{
		Program: "/bin/opencode", Home: "/home/box", Workspace: "/home/box/work", SessionID: "s1", NativeID: a.NativeID("s1", 1),
		Permission: adapters.PermissionAllow,
	}
}
