package proc

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sojourn-run/sojourn/runner"
)

// Threads take their ids from the same numbers as processes do: the pid of a process that has
// ended may be the id of another process's thread.
func TestPidThatIsAThreadsNow(t *testing.T) {
	t.Parallel()
	ids, done := make(chan int), make(chan struct{})
	defer close(done)
	for range 2 { // one of them may be the process's first thread, which has its pid
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ids <- unix.Gettid()
			<-done
		}()
	}
	id := <-ids
	if other := <-ids; id == os.Getpid() {
		id = other
	}
	ended := runner.Process{Pid: id, Start: 1}
	sent, err := Deliver(ended, unix.SIGKILL)
	require.NoError(t, err)
	require.False(t, sent)
	dead, err := Dead(ended)
	require.NoError(t, err)
	require.True(t, dead)
	require.NoError(t, Wait(t.Context(), ended))
}

// If a process ends while its variables are read, only a part is read, and a part of
// one sandbox's name may be another's.
func TestSettingThatWasNotReadWhole(t *testing.T) {
	const env = "HOME=/h\x00SOJOURN_SANDBOX=/data/s-e12\x00PATH=/bin\x00"
	for n := range env {
		if hasSetting([]byte(env[:n]), "SOJOURN_SANDBOX=/data/s-e1") {
			t.Errorf("%q is taken for the sandbox of epoch 1", env[:n])
		}
	}
	if !hasSetting([]byte(env), "SOJOURN_SANDBOX=/data/s-e12") {
		t.Error("the whole is not recognized")
	}
}
