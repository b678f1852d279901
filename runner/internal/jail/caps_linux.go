package jail

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// dangerous are the capabilities by which a root agent could undo its view:
// mount, read disks and files past their paths, look into other processes.
var dangerous = []uintptr{
	unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE, unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO,
	unix.CAP_SYS_BOOT, unix.CAP_MKNOD, unix.CAP_DAC_READ_SEARCH, unix.CAP_SYSLOG,
	unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_CHECKPOINT_RESTORE,
}

// dropCapabilities works on the calling thread and what it forks.
func dropCapabilities() error {
	err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	if err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	for _, c := range dangerous {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		// EINVAL: a kernel that does not know it yet. EPERM: a user namespace
		// without CAP_SETPCAP, whose agent has no capability in any case.
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	return nil
}
