package jail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// View is what the agent sees of the file system. Missing paths are skipped. The
// rule of the deepest path applies; a path that is both hidden and kept is kept.
type View struct {
	Hide         []string `json:"hide,omitempty"`
	Keep         []string `json:"keep,omitempty"`
	KeepReadOnly []string `json:"keepReadOnly,omitempty"`
}

type ruleKind int

const (
	hidden ruleKind = iota
	readOnly
	writable
)

type rule struct {
	path string
	kind ruleKind
	tree int // of a kept path: its detached mount
}

// rules returns the rules that change something, parents first.
func (v View) rules() []rule {
	byPath := map[string]ruleKind{}
	for kind, paths := range [][]string{hidden: v.Hide, readOnly: v.KeepReadOnly, writable: v.Keep} {
		for _, p := range paths {
			if real, err := filepath.EvalSymlinks(p); err == nil && real != "/" {
				byPath[real] = max(byPath[real], ruleKind(kind))
			}
		}
	}
	var all, out []rule
	for p, kind := range byPath {
		all = append(all, rule{path: p, kind: kind, tree: -1})
	}
	slices.SortFunc(all, func(a, b rule) int { return strings.Compare(a.path, b.path) })
	for _, r := range all {
		if r.matters(governing(out, r.path)) {
			out = append(out, r)
		}
	}
	return out
}

// matters reports whether the rule changes that of its parent: keeping removes
// nothing.
func (r rule) matters(above ruleKind) bool {
	switch r.kind {
	case hidden:
		return above != hidden
	case readOnly:
		return above == hidden
	}
	return above != writable
}

// governing returns the kind of the deepest rule above p; without one nothing
// changes.
func governing(rules []rule, p string) ruleKind {
	kind, depth := writable, -1
	for _, r := range rules {
		if strings.HasPrefix(p, r.path+"/") && len(r.path) > depth {
			kind, depth = r.kind, len(r.path)
		}
	}
	return kind
}

// apply changes the calling process's mount namespace.
func (v View) apply() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	rules := v.rules()
	defer closeTrees(rules)
	if err := detach(rules); err != nil {
		return err
	}
	for _, r := range rules {
		if err := r.mount(); err != nil {
			return err
		}
	}
	if err := seal(rules); err != nil {
		return err
	}
	if err := maskDisks(); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// detach opens the kept trees before anything is mounted over them.
func detach(rules []rule) error {
	for i, r := range rules {
		if r.kind == hidden {
			continue
		}
		fd, err := unix.OpenTree(unix.AT_FDCWD, r.path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return fmt.Errorf("keep %s: %w", r.path, err)
		}
		rules[i].tree = fd
	}
	return nil
}

func closeTrees(rules []rule) {
	for _, r := range rules {
		if r.tree >= 0 {
			unix.Close(r.tree)
		}
	}
}

func (r rule) mount() error {
	if r.kind == hidden {
		err := unix.Mount("tmpfs", r.path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m")
		if errors.Is(err, unix.ENOTDIR) {
			err = unix.Mount(os.DevNull, r.path, "", unix.MS_BIND, "")
		}
		if err != nil {
			return fmt.Errorf("hide %s: %w", r.path, err)
		}
		return nil
	}
	if err := r.mountPoint(); err != nil {
		return fmt.Errorf("keep %s: %w", r.path, err)
	}
	if err := unix.MoveMount(r.tree, "", unix.AT_FDCWD, r.path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("keep %s: %w", r.path, err)
	}
	if r.kind == readOnly {
		return setReadOnly(r.path, unix.AT_RECURSIVE)
	}
	return nil
}

// mountPoint makes a file or folder to mount the kept path on.
func (r rule) mountPoint() error {
	var st unix.Stat_t
	if err := unix.Fstat(r.tree, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return os.MkdirAll(r.path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(r.path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// seal makes the empty covers read-only, so that nothing is lost in them.
func seal(rules []rule) error {
	for _, r := range rules {
		if r.kind != hidden {
			continue
		}
		if err := setReadOnly(r.path, 0); err != nil {
			return err
		}
	}
	return nil
}

func setReadOnly(path string, flags uint) error {
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, path, flags, attr); err != nil {
		return fmt.Errorf("make %s read-only: %w", path, err)
	}
	return nil
}

// maskDisks mounts /dev/null over block devices: a root agent could read hidden
// files from the disk itself.
func maskDisks() error {
	if os.Geteuid() != 0 {
		return nil
	}
	entries, err := os.ReadDir("/dev")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("mask disks: %w", err)
	}
	for _, e := range entries {
		if e.Type()&fs.ModeDevice == 0 || e.Type()&fs.ModeCharDevice != 0 {
			continue
		}
		if err := unix.Mount("/dev/null", filepath.Join("/dev", e.Name()), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mask disk %s: %w", e.Name(), err)
		}
	}
	return nil
}
