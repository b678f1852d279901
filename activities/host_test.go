package activities

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/test/executable"
	"github.com/sojourn-run/sojourn/turn"
)

func TestAttemptsGrow(t *testing.T) {
	t.Parallel()
	last := 0
	for turn := 1; turn < 50; turn++ {
		for _, attempt := range []int{1, 2, 9999} {
			n := attemptOf(turn, attempt)
			require.Greater(t, n, last)
			last = n
		}
	}
}

func TestExitOf(t *testing.T) {
	t.Parallel()
	for line, exited := range map[string]bool{"exit 0": true, "exit 137": true, "signal killed": true, "start": false, "": false} {
		at := func(dir event.Dir) runner.Delivery {
			return runner.Delivery{Offset: 7, Record: traffic.Record{Dir: dir, Line: line}}
		}
		require.Nil(t, exitOf(at(event.DirOut)), "an agent may print anything")
		exit := exitOf(at(event.DirSig))
		require.Equal(t, exited, exit != nil, line)
		if exited {
			require.Equal(t, turn.Exit{How: line, Offset: 7}, *exit)
		}
	}
}

// Each error that must not be retried crosses Temporal by its type, however it is wrapped;
// the rest is retried.
func TestCrossing(t *testing.T) {
	t.Parallel()
	require.NoError(t, toApplicationError(nil))
	for _, c := range typed {
		err := toApplicationError(fmt.Errorf("outer: %w", errors.Join(errors.New("other"), fmt.Errorf("inner: %w", c.err))))
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app, "%v", c.err)
		require.Equal(t, c.typ, app.Type())
		require.True(t, app.NonRetryable())
		require.Contains(t, app.Error(), c.err.Error())
		require.Same(t, app, toApplicationError(err), "a converted error is not converted again")
	}
	for want, err := range map[string]error{
		session.TypeFenced:       &stream.GapError{},
		session.TypeAgentMissing: runner.ErrClosed,
		session.TypeHostLost:     archive.ErrCorrupt,
	} {
		var app *temporal.ApplicationError
		require.False(t, errors.As(toApplicationError(err), &app), "%v is no %s", err, want)
	}
	require.ErrorIs(t, toApplicationError(fmt.Errorf("x: %w", context.Canceled)), context.Canceled)
	// Temporal looks at the outermost error alone.
	crossed, is := toApplicationError(fmt.Errorf("x: %w", errors.Join(errGone("b1"), nil))).(*temporal.ApplicationError)
	require.True(t, is)
	require.Equal(t, session.TypeHostLost, crossed.Type())
	require.True(t, crossed.NonRetryable())
	var app *temporal.ApplicationError
	require.ErrorAs(t, toApplicationError(fmt.Errorf("x: %w", session.Invalid("workspace", "is no folder", "a folder"))), &app)
	require.Equal(t, session.TypeInvalid, app.Type())
	require.Equal(t, session.Invalid("workspace", "is no folder", "a folder"), session.FromTemporal(app))
	// An agent that can't be started because of its epoch is fenced, not broken.
	require.ErrorAs(t, toApplicationError(fmt.Errorf("start %w claude: %w", host.ErrAgent, runner.ErrEpoch)), &app)
	require.Equal(t, session.TypeFenced, app.Type())
}

func TestCrossingNames(t *testing.T) {
	t.Parallel()
	want := map[error]string{
		adapters.ErrNotInstalled: session.TypeAgentMissing, adapters.ErrUnknownAgent: session.TypeInvalid,
		errAhead: session.TypeFenced, stream.ErrFenced: session.TypeFenced, archive.ErrFenced: session.TypeFenced, runner.ErrEpoch: session.TypeFenced,
		sandbox.ErrNotFound: session.TypeHostLost, sandbox.ErrTerminated: session.TypeHostLost,
		host.ErrProfile: session.TypeNotFound, host.ErrAgent: session.TypeAgentFailed, adapters.ErrUnsupported: session.TypeInvalid,
		stream.ErrEvent: session.TypeAgentFailed, runner.ErrOffset: session.TypeAgentFailed,
		runner.ErrTrimmed: session.TypeAgentFailed, runner.ErrStdinClosed: session.TypeAgentFailed,
	}
	require.Len(t, typed, len(want))
	for _, c := range typed {
		require.Equal(t, want[c.err], c.typ, "%v", c.err)
	}
}

// bare returns a host without servers and sandboxes.
func bare(t *testing.T) *Host {
	t.Helper()
	h := NewHost(HostOptions{Options: host.Options{ID: "h", DataDir: t.TempDir(), Log: quiet()}})
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	return h
}

// live returns a turn that no goroutine runs.
func live(session, execution string) *attempt {
	return &attempt{
		in:       contract.RunTurnInput{Agent: contract.Agent{SessionID: session}, ExecutionID: execution},
		controls: make(chan control), left: make(chan struct{}),
	}
}

func TestSendControl(t *testing.T) {
	t.Parallel()
	h := bare(t)
	in := contract.ControlInput{SessionID: "s", ExecutionID: "x1"}
	out, err := h.SendControl(t.Context(), in)
	require.NoError(t, err)
	require.False(t, out.Handed, "no turn")

	// The turn starts while the control waits for it, after one of another session.
	sent := make(chan contract.ControlOutput, 1)
	go func() {
		out, err := h.SendControl(t.Context(), in)
		if err != nil {
			panic(err)
		}
		sent <- out
	}()
	defer h.enter(live("other", "x1"))()
	one := live("s", "x1")
	leave := h.enter(one)
	c := <-one.controls
	c.reply <- reply{}
	require.True(t, (<-sent).Handed)

	// The turn ends without having taken the control.
	one.over = true
	go func() { leave() }()
	out, err = h.SendControl(t.Context(), in)
	require.NoError(t, err)
	require.False(t, out.Handed)

	// A refusal keeps its type.
	two := live("s", "x2")
	leave = h.enter(two)
	defer leave()
	go func() {
		c := <-two.controls
		c.reply <- reply{err: session.Invalid("requestId", "is not open", "an open one")}
	}()
	_, err = h.SendControl(t.Context(), contract.ControlInput{SessionID: "s", ExecutionID: "x2"})
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.Equal(t, session.TypeInvalid, app.Type())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = h.SendControl(ctx, contract.ControlInput{SessionID: "s", ExecutionID: "x2"})
	require.ErrorIs(t, err, context.Canceled)
	_, err = h.SendControl(ctx, contract.ControlInput{SessionID: "nobody", ExecutionID: "x1"})
	require.ErrorIs(t, err, context.Canceled, "a canceled wait does not report whether there is a turn")
}

// A control that the turn took as its last action was handed over, whichever of the two is
// received first.
func TestSendControlToALeavingTurn(t *testing.T) {
	t.Parallel()
	h := bare(t)
	for range 200 {
		one := live("s", "x1")
		leave := h.enter(one)
		var wg sync.WaitGroup
		wg.Go(func() { c := <-one.controls; c.reply <- reply{}; leave() })
		out, err := h.SendControl(t.Context(), contract.ControlInput{SessionID: "s", ExecutionID: "x1"})
		require.NoError(t, err)
		require.True(t, out.Handed)
		wg.Wait()
	}
}

// What an attempt took and has not answered is for the one that follows it.
func TestSendControlToTheNextAttempt(t *testing.T) {
	t.Parallel()
	h := bare(t)
	slow, next := live("s", "x1"), live("s", "x1")
	leave := h.enter(slow)
	var wg sync.WaitGroup
	wg.Go(func() {
		<-slow.controls
		leave()
		leave = h.enter(next)
		c := <-next.controls
		c.reply <- reply{}
	})
	out, err := h.SendControl(t.Context(), contract.ControlInput{SessionID: "s", ExecutionID: "x1"})
	require.NoError(t, err)
	require.True(t, out.Handed)
	wg.Wait()
	leave()
}

// A turn that is followed by another attempt does not remove that attempt when it leaves.
func TestLeaveIsItsOwn(t *testing.T) {
	t.Parallel()
	h := bare(t)
	old, next := live("s", "x1"), live("s", "x1")
	leave := h.enter(old)
	defer h.enter(next)()
	leave()
	got, _ := h.live("s", "x1")
	require.Same(t, next, got)
	got, _ = h.live("s", "x2")
	require.Nil(t, got)
}

// A program is asked once for its version, again when its file has changed, and each time
// while it has not answered.
func TestVersionsAreRemembered(t *testing.T) {
	t.Parallel()
	h, dir := bare(t), t.TempDir()
	h.o.Getenv = os.Getenv
	file, calls := filepath.Join(dir, "program"), filepath.Join(dir, "calls")
	write := func(script string) {
		executable.Write(t, file, []byte("#!/bin/sh\necho >> "+calls+"\n"+script))
	}
	asked := func() int {
		data, err := os.ReadFile(calls)
		require.NoError(t, err)
		return len(data)
	}
	write("exit 1")
	for n := range 2 {
		_, err := h.programVersion(t.Context(), file)
		require.Error(t, err)
		require.Equal(t, n+1, asked())
	}
	write("echo 1.0")
	for range 2 {
		version, err := h.programVersion(t.Context(), file)
		require.NoError(t, err)
		require.Equal(t, "1.0", version)
		require.Equal(t, 3, asked())
	}
	write("echo 1.0.1")
	version, err := h.programVersion(t.Context(), file)
	require.NoError(t, err)
	require.Equal(t, "1.0.1", version)
}
