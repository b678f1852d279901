package watch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// wanted are the changes that the kernel is asked to report.
const wanted = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB |
	unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK

// inotify is the kernel's queue.
type inotify struct {
	file *os.File
	buf  []byte
}

func openInotify() (notices, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	return &inotify{file: os.NewFile(uintptr(fd), "inotify"), buf: make([]byte, 64<<10)}, nil
}

// watch names the folder by its descriptor, so that the opened folder is watched
// and not what is at its path by then.
func (i *inotify) watch(dir *os.File) (int, error) {
	queue, err := i.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	folder, err := dir.SyscallConn()
	if err != nil {
		return 0, err
	}
	var number int
	var werr error
	err = queue.Control(func(q uintptr) {
		err := folder.Control(func(d uintptr) {
			number, werr = unix.InotifyAddWatch(int(q), fmt.Sprintf("/proc/self/fd/%d", d), wanted)
		})
		if werr == nil {
			werr = err
		}
	})
	if err == nil {
		err = werr
	}
	return number, err
}

// forget ends a watch; one that has already ended is ignored.
func (i *inotify) forget(number int) {
	queue, err := i.file.SyscallConn()
	if err != nil {
		return
	}
	_ = queue.Control(func(q uintptr) { _, _ = unix.InotifyRmWatch(int(q), uint32(number)) })
}

func (i *inotify) next() ([]notice, error) {
	n, err := i.file.Read(i.buf)
	if err != nil {
		return nil, err
	}
	return parseNotices(i.buf[:n]), nil
}

func (i *inotify) close() error { return i.file.Close() }

func parseNotices(buf []byte) (some []notice) {
	for len(buf) >= unix.SizeofInotifyEvent {
		number := int(int32(binary.NativeEndian.Uint32(buf)))
		mask := binary.NativeEndian.Uint32(buf[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(buf[12:]))
		if end > len(buf) {
			return some
		}
		name, _, _ := bytes.Cut(buf[unix.SizeofInotifyEvent:end], []byte{0})
		some = append(some, notice{
			number: number, name: string(name), folder: mask&unix.IN_ISDIR != 0,
			lost: mask&unix.IN_Q_OVERFLOW != 0, dropped: mask&unix.IN_IGNORED != 0,
		})
		buf = buf[end:]
	}
	return some
}
