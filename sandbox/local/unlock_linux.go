package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// The functions here undo what an agent does to a file's permissions, flags and
// mounts, as far as the worker's user may: always by descriptor, in the folder
// with the name, so that a swap meanwhile does not lead elsewhere.

// unlockAt grants the owner permissions on a file or folder.
func unlockAt(dir *os.File, name string, perm uint32) error {
	fd, err := ignoringEINTR(func() (int, error) {
		return unix.Openat(int(dir.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	return unlock(fd, perm)
}

// unlock is unlockAt for a descriptor, which may be opened with O_PATH.
func unlock(fd int, perm uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	kind := st.Mode & unix.S_IFMT
	if kind != unix.S_IFREG && kind != unix.S_IFDIR || st.Mode&perm == perm {
		return nil
	}
	// fchmod refuses an O_PATH descriptor; the link does not.
	if err := unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), st.Mode&0o7777|perm); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	return nil
}

// Flags of a file that forbid any change or, the second one, all but appending.
const (
	immutable  = unix.STATX_ATTR_IMMUTABLE
	appendOnly = unix.STATX_ATTR_APPEND
)

// thaw clears the flags that forbid changes, which only a privileged agent can
// set and only a privileged worker can clear. Without such flags, or on a file
// system without them, it does nothing.
func thaw(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return nil
	}
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err != nil || flags&(immutable|appendOnly) == 0 {
		return nil // it has none
	}
	return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags&^(immutable|appendOnly)))
}

// thawAt is thaw for a name in a folder.
func thawAt(dir *os.File, name string) {
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if kind := st.Mode & unix.S_IFMT; err != nil || kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return
	}
	f, err := openAt(dir, name, 0)
	if err != nil {
		return
	}
	defer f.Close()
	_ = thaw(int(f.Fd())) // the caller tries again, and gets the error then
}

// forbidden reports whether an error may be due to permissions or flags.
func forbidden(err error) bool { return errors.Is(err, fs.ErrPermission) }

// unlink removes a name that is not a folder; for a folder the error is EISDIR.
func unlink(dir *os.File, name string) error {
	err := unix.Unlinkat(int(dir.Fd()), name, 0)
	if !forbidden(err) {
		return err
	}
	var st unix.Stat_t
	if unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unix.EISDIR
	}
	_ = unlock(int(dir.Fd()), 0o700)
	_ = thaw(int(dir.Fd()))
	thawAt(dir, name)
	return unix.Unlinkat(int(dir.Fd()), name, 0)
}

// moveUp moves a folder out of another one.
func moveUp(dir *os.File, name string, to *os.File, as string) error {
	sub, err := openForRemoval(dir, name) // a folder that is moved must be writable
	if err != nil {
		return err
	}
	defer sub.Close()
	return unix.Renameat(int(dir.Fd()), name, int(to.Fd()), as)
}

// openForRemoval opens a folder in another one so that its entries can be
// removed. A mount is not entered but unmounted.
func openForRemoval(dir *os.File, name string) (*os.File, error) {
	f, err := openHere(dir, name)
	if errors.Is(err, unix.EXDEV) {
		at := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
		if uerr := unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); uerr != nil {
			return nil, fmt.Errorf("something is mounted there: %w", uerr)
		}
		f, err = openHere(dir, name)
	}
	if forbidden(err) {
		if uerr := unlockAt(dir, name, 0o700); uerr != nil {
			return nil, errors.Join(err, uerr)
		}
		f, err = openHere(dir, name)
	}
	if err != nil {
		return nil, err
	}
	if unlock(int(f.Fd()), 0o700) != nil {
		_ = thaw(int(f.Fd()))
		_ = unlock(int(f.Fd()), 0o700) // if it fails, the removal names what is left
	}
	_ = thaw(int(f.Fd()))
	return f, nil
}

// openHere opens a folder in another one; EXDEV if something is mounted there.
func openHere(dir *os.File, name string) (*os.File, error) {
	fd, err := ignoringEINTR(func() (int, error) {
		return unix.Openat2(int(dir.Fd()), name, &unix.OpenHow{
			Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
		})
	})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		// An old kernel, or a container's rules from before this call existed.
		return openOnDevice(dir, name)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// openOnDevice is openHere with older calls: it can't detect a mount of the same
// file system.
func openOnDevice(dir *os.File, name string) (*os.File, error) {
	f, err := openAt(dir, name, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	var in, st unix.Stat_t
	err = errors.Join(unix.Fstat(int(dir.Fd()), &in), unix.Fstat(int(f.Fd()), &st))
	if err == nil && in.Dev != st.Dev {
		err = unix.EXDEV
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
