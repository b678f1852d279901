package jail

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// needed are the capabilities that a root agent's tools may use: to own, read and
// write files, to signal processes, to become another user, to listen on a low
// port. Without the others it can neither undo its view nor leave files on the
// host that only root can remove.
var needed = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL,
	unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_NET_BIND_SERVICE, unix.CAP_AUDIT_WRITE,
}

// dropPrivileges applies to the calling thread and its children: they can get no
// capability but the needed ones, and no program raises theirs.
func dropPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no-new-privileges: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	if err := clearInheritable(); err != nil {
		return fmt.Errorf("clear inheritable capabilities: %w", err)
	}
	for c := uintptr(0); ; c++ {
		if slices.Contains(needed, c) {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		switch {
		case errors.Is(err, unix.EINVAL):
			// The kernel has no further capabilities.
			return nil
		case errors.Is(err, unix.EPERM):
			// Not root: its programs get no capability.
			return nil
		case err != nil:
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
}

// clearInheritable: a program that root runs would keep those in spite of the
// bounding set.
func clearInheritable() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	return unix.Capset(&header, &data[0])
}
