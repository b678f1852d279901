package chaos

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// diskSize is the size of a host's own disk: more than the other scripts of
// [HostileTool] write.
const diskSize = "2g"

// fills is a hostile script that fills its host's disk.
const fills = "SAY " + mark + " fills THEN TOOL bash: cat /dev/zero > \"$HOME/all\" THEN SAY " + mark + " filled"

// mount mounts a disk in memory on a host's folder, where the system allows that.
func (h *host) mount() error {
	err := syscall.Mount("sojourn-chaos", h.dir, "tmpfs", 0, "size="+diskSize)
	h.disk = err == nil
	if errors.Is(err, syscall.EPERM) {
		return nil
	}
	return err
}

// unmount unmounts the disk. It may be called again.
func (h *host) unmount() error {
	if !h.disk {
		return nil
	}
	err := syscall.Unmount(h.dir, syscall.MNT_DETACH)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOENT) {
		return nil // it is unmounted already
	}
	return err
}

// fillDisks fills the disks that the plan asked for. It runs after everything else,
// since a full disk ends all turns on its host.
func (d *driver) fillDisks(ctx context.Context) {
	if len(d.disks) > 0 && !d.hosts.all[0].disk {
		d.note("hosts have no disks of their own here (that needs root): %d were not filled", len(d.disks))
		return
	}
	for i, agent := range d.disks {
		d.say("a tool of %s fills a disk, %d of %d", agent, i+1, len(d.disks))
		if err := d.fillDisk(ctx, 800+2*i, agent); err != nil {
			d.fault(Finding{Fault: Stuck, Kind: HostileTool, Agent: agent, Detail: err.Error()})
		}
	}
}

// fillDisk lets a session fill its host's disk and closes it. The next session must be
// answered, on whatever host.
func (d *driver) fillDisk(ctx context.Context, n int, agent string) error {
	s, err := d.open(ctx, n, agent)
	if err != nil {
		return err
	}
	s.hostile = true
	s.say(ctx, fills)
	full := d.hosts.of(s.id)
	s.finish(ctx)
	after, err := d.open(ctx, n+1, agent)
	if err != nil {
		return fmt.Errorf("after a full disk: %w", err)
	}
	after.say(ctx, scripts[0])
	after.finish(ctx)
	return full.roomy()
}

// roomy returns an error if the disk is still full.
func (h *host) roomy() error {
	if h == nil {
		return nil
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(h.dir, &fs); err != nil {
		return fmt.Errorf("disk of %s: %w", h.dir, err)
	}
	if fs.Bavail < fs.Blocks/2 {
		return fmt.Errorf("disk of %s: %d of %d blocks are free after the close", h.dir, fs.Bavail, fs.Blocks)
	}
	return nil
}
