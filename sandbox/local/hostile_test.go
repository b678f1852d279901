//go:build linux

package local_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/sandbox/local"
	"github.com/sojourn-run/sojourn/test/skip"
)

const ordinaryUser = "SOJOURN_TEST_ORDINARY_USER"

// asOrdinaryUser runs the calling test as a user without privileges and reports
// whether this process is that one: root may read and remove anything.
func asOrdinaryUser(t *testing.T, env ...string) bool {
	t.Helper()
	if os.Getenv(ordinaryUser) != "" || os.Geteuid() != 0 {
		return true
	}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), append(env, ordinaryUser+"=1")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getegid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		skip.Without(t, "an ordinary user: user namespaces are not allowed here")
	}
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return false
}

// nest makes folders in one another, of any depth.
func nest(t *testing.T, dir string, levels int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_RDONLY, 0)
	require.NoError(t, err)
	name := strings.Repeat("n", 50)
	for range levels {
		require.NoError(t, unix.Mkdirat(fd, name, 0o700))
		below, err := unix.Openat(fd, name, unix.O_DIRECTORY|unix.O_RDONLY, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
		fd = below
	}
	require.NoError(t, unix.Close(fd))
}

// mess puts everything into a folder that a tool could leave.
func mess(t *testing.T, dir string) {
	t.Helper()
	at := func(name string) string { return filepath.Join(dir, name) }
	nest(t, dir, 5000)
	for i := range 3000 {
		require.NoError(t, os.Mkdir(at(fmt.Sprintf("wide-%d", i)), 0o700))
	}
	require.NoError(t, os.MkdirAll(at("closed/inner/most"), 0o700))
	require.NoError(t, os.WriteFile(at("closed/inner/file"), []byte("secret"), 0o000))
	require.NoError(t, os.Chmod(at("closed/inner/most"), 0o000))
	require.NoError(t, os.Chmod(at("closed/inner"), 0o400))
	require.NoError(t, os.Chmod(at("closed"), 0o000))
	require.NoError(t, os.WriteFile(at("\xff\xfe no text"), nil, 0o600))
	require.NoError(t, syscall.Mkfifo(at("pipe"), 0o600))
	// The folder's path may be too long for a socket's.
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, os.Rename(l.Addr().String(), at("socket")))
	require.NoError(t, l.Close())
	require.NoError(t, os.Symlink("/", at("link")))
}

func make1(t *testing.T, p sandbox.Provider) (sandbox.Sandbox, sandbox.Info) {
	t.Helper()
	sb, err := p.Create(t.Context(), sandbox.Spec{ID: "one", SessionID: "s"})
	require.NoError(t, err)
	info, err := sb.Info(t.Context())
	require.NoError(t, err)
	return sb, info
}

// end ends a sandbox and waits until all of it is removed, which on a busy
// machine may take longer than Terminate does.
func end(t *testing.T, p *local.Provider, sb sandbox.Sandbox) {
	t.Helper()
	err := sb.Terminate(t.Context())
	if errors.Is(err, context.DeadlineExceeded) {
		_, err = p.Open(t.Context(), sb.ID())
		require.ErrorIs(t, err, sandbox.ErrNotFound, "it has ended")
		for err != nil && t.Context().Err() == nil {
			if err = p.Tidy(t.Context()); err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
		}
	}
	require.NoError(t, err)
}

// requireEmpty requires that a data folder has nothing of any sandbox.
func requireEmpty(t *testing.T, data string) {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(data, "sandboxes"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// Whatever is in a sandbox, it ends and all of it is removed.
func TestTerminateRemovesWhateverIsThere(t *testing.T) {
	if !asOrdinaryUser(t) {
		return
	}
	data := t.TempDir()
	p := providerAt(t, data)
	sb, info := make1(t, p)
	for _, dir := range []string{info.Paths.Home, info.Paths.Workspace, info.Paths.Tmp} {
		mess(t, dir)
		require.NoError(t, os.Chmod(dir, 0o000))
	}
	require.NoError(t, os.Chmod(filepath.Dir(info.Paths.Home), 0o000))
	listed, err := p.List(t.Context())
	require.NoError(t, err)
	require.Len(t, listed, 1)
	end(t, p, sb)
	requireEmpty(t, data)
	require.NoError(t, sb.Terminate(t.Context()), "again")
}

// What a tool made unreadable is read all the same if requested, and otherwise
// named; nothing else is lost by it.
func TestCopyOutOfWhateverIsThere(t *testing.T) {
	if !asOrdinaryUser(t) {
		return
	}
	p := providerAt(t, t.TempDir())
	sb, info := make1(t, p)
	mess(t, info.Paths.Workspace)
	require.NoError(t, os.Chmod(info.Paths.Workspace, 0o000))
	read := func(sel sandbox.Selection) map[string]sandbox.File {
		found := map[string]sandbox.File{}
		for f, err := range sb.CopyOut(t.Context(), sel) {
			require.NoError(t, err)
			found[f.Path] = f
		}
		return found
	}
	locked := read(sandbox.Selection{Area: sandbox.AreaWorkspace, Lenient: true})
	require.True(t, locked["closed"].Unreadable)
	require.EqualValues(t, 0o000, locked["closed"].Mode.Perm())
	require.Contains(t, locked, "\xff\xfe no text")
	require.Contains(t, locked, "wide-2999")
	deepest := 0
	for path, f := range locked {
		if f.Unreadable && path != "closed" {
			deepest = len(path)
		}
	}
	require.Greater(t, deepest, 4000, "what is too deep is named")

	shallow := read(sandbox.Selection{Area: sandbox.AreaWorkspace, Depth: 1})
	require.Contains(t, shallow, "closed")
	require.NotContains(t, shallow, "closed/inner")

	for f, err := range sb.CopyOut(t.Context(), sandbox.Selection{Area: sandbox.AreaWorkspace, Paths: []string{"closed"}, Unlock: true}) {
		require.NoError(t, err)
		switch f.Path {
		case "closed":
			require.EqualValues(t, 0o000, f.Mode.Perm(), "as it was")
		case "closed/inner/file":
			body := make([]byte, 6)
			_, err := f.Body.Read(body)
			require.NoError(t, err)
			require.Equal(t, "secret", string(body))
		}
	}
	end(t, p, sb)
}

// TestShortOfDescriptors: where the host has no descriptor left, a folder is not named as
// unreadable, and a file neither.
func TestShortOfDescriptors(t *testing.T) {
	const inChild = "SOJOURN_TEST_FEW_DESCRIPTORS"
	if os.Getenv(inChild) == "" { // the limit is the process's
		self, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inChild+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: "+t.Name())
		return
	}
	p := providerAt(t, t.TempDir())
	sb, info := make1(t, p)
	nest(t, info.Paths.Workspace, 100)
	require.NoError(t, os.WriteFile(filepath.Join(info.Paths.Workspace, "file"), []byte("text"), 0o600))
	var all syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &all))
	limit := func(n uint64) {
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: all.Max}))
	}
	read := func(each func(sandbox.File)) (failed error) {
		for f, err := range sb.CopyOut(t.Context(), sandbox.Selection{Area: sandbox.AreaWorkspace, Lenient: true}) {
			if err != nil {
				return err
			}
			each(f)
		}
		return nil
	}
	limit(50)
	require.ErrorIs(t, read(func(f sandbox.File) { require.False(t, f.Unreadable, f.Path) }), sandbox.ErrShort)
	limit(all.Cur)
	found := false
	require.NoError(t, read(func(f sandbox.File) {
		if f.Path != "file" {
			return
		}
		found = true
		limit(0)
		_, err := f.Body.Read(make([]byte, 4))
		limit(all.Cur)
		require.ErrorIs(t, err, sandbox.ErrShort)
	}))
	require.True(t, found)
	end(t, p, sb)
}

// freeze sets or clears the flag that forbids any change of a file.
func freeze(path string, frozen bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return err
	}
	flags &^= unix.STATX_ATTR_IMMUTABLE
	if frozen {
		flags |= unix.STATX_ATTR_IMMUTABLE
	}
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags))
}

// A root agent can make files immutable; a root worker undoes that.
func TestTerminateRemovesImmutableFiles(t *testing.T) {
	data := t.TempDir()
	p := providerAt(t, data)
	sb, info := make1(t, p)
	inner := filepath.Join(info.Paths.Home, "a", "b")
	require.NoError(t, os.MkdirAll(inner, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(inner, "file"), nil, 0o600))
	if err := freeze(filepath.Join(inner, "file"), true); err != nil {
		skip.Without(t, fmt.Sprintf("immutable files: %v", err))
	}
	for _, dir := range []string{inner, filepath.Dir(inner), info.Paths.Home, filepath.Dir(info.Paths.Home)} {
		require.NoError(t, freeze(dir, true))
	}
	require.NoError(t, sb.Terminate(t.Context()))
	requireEmpty(t, data)
}

// What can't be removed keeps neither the sandbox from ending nor a provider from
// starting; it is named, and removed when that is possible again.
func TestWhatCantBeRemovedIsNamed(t *testing.T) {
	const given = "SOJOURN_TEST_DATA"
	if data := os.Getenv(given); data != "" {
		unprivileged(t, data)
		return
	}
	if os.Geteuid() != 0 {
		skip.Without(t, "root, to make a file immutable")
	}
	data := t.TempDir()
	p := providerAt(t, data)
	_, info := make1(t, p)
	file := filepath.Join(info.Paths.Home, "a", "frozen")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	if err := freeze(file, true); err != nil {
		skip.Without(t, fmt.Sprintf("immutable files: %v", err))
	}
	thawed := false
	t.Cleanup(func() {
		if !thawed {
			_ = exec.Command("chattr", "-R", "-i", data).Run()
		}
	})
	asOrdinaryUser(t, given+"="+data)
	require.NoError(t, p.Tidy(t.Context()))
	requireEmpty(t, data)
	thawed = true
}

func unprivileged(t *testing.T, data string) {
	sb, err := providerAt(t, data).Open(t.Context(), "one")
	require.NoError(t, err)
	err = sb.Terminate(t.Context())
	left, ok := errors.AsType[*sandbox.LeftError](err)
	require.True(t, ok, "%v", err)
	require.Contains(t, left.Error(), "home/a/frozen")
	require.NotContains(t, left.Error(), "\n")

	p := providerAt(t, data)
	listed, err := p.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, listed, "it has ended")
	_, err = p.Open(t.Context(), "one")
	require.ErrorIs(t, err, sandbox.ErrNotFound)
	require.ErrorContains(t, p.Tidy(t.Context()), "frozen", "it is named each time")
}

// A mount in a sandbox is unmounted and not emptied.
func TestTerminateEntersNoMount(t *testing.T) {
	data, outside := t.TempDir(), t.TempDir()
	p := providerAt(t, data)
	sb, info := make1(t, p)
	require.NoError(t, os.WriteFile(filepath.Join(outside, "precious"), nil, 0o600))
	at := filepath.Join(info.Paths.Workspace, "deep", "mounted")
	require.NoError(t, os.MkdirAll(at, 0o700))
	if err := unix.Mount(outside, at, "", unix.MS_BIND, ""); err != nil {
		skip.Without(t, fmt.Sprintf("mounts: %v", err))
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	require.NoError(t, sb.Terminate(t.Context()))
	requireEmpty(t, data)
	require.FileExists(t, filepath.Join(outside, "precious"))
}

// An unreadable record makes the sandbox unhealthy, and not the host unusable;
// the sandbox can be ended.
func TestDamagedSandboxIsListedAndEnds(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := providerAt(t, data)
	_, info := make1(t, p)
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(info.Paths.Home), "sandbox.json"), []byte("{"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(info.Paths.Control, "status.json"), []byte("{"), 0o600))
	p = providerAt(t, data)
	listed, err := p.List(t.Context())
	require.NoError(t, err)
	require.Len(t, listed, 1)
	require.Equal(t, sandbox.StatusUnhealthy, listed[0].Status)
	require.Contains(t, listed[0].Message, "its record is damaged")
	sb, err := p.Open(t.Context(), "one")
	require.NoError(t, err)
	require.NoError(t, sb.Terminate(t.Context()))
	requireEmpty(t, data)
}

// A named pipe in the place of a folder has nothing below it, and nothing waits for it.
func TestPipeInThePlaceOfAFolder(t *testing.T) {
	t.Parallel()
	p := provider(t)
	sb, info := make1(t, p)
	require.NoError(t, syscall.Mkfifo(filepath.Join(info.Paths.Home, "pipe"), 0o600))
	done := make(chan int)
	go func() {
		n := 0
		for _, err := range sb.CopyOut(t.Context(), sandbox.Selection{Area: sandbox.AreaHome, Paths: []string{"pipe/below"}}) {
			require.NoError(t, err)
			n++
		}
		done <- n
	}()
	select {
	case n := <-done:
		require.Zero(t, n)
	case <-time.After(time.Minute):
		t.Fatal("it waits for a writer")
	}
	end(t, p, sb)
}
