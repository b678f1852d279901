package skip

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// recorder is a test that records how it was ended.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Helper() {}

func (r *recorder) Skip(args ...any) { r.end("skip", args) }

func (r *recorder) Fatal(args ...any) { r.end("fatal", args) }

func (r *recorder) end(how string, args []any) {
	r.ended = how + " " + args[0].(string)
	runtime.Goexit()
}

// endOf returns how a test that calls act ends.
func endOf(act func(testing.TB)) string {
	r := &recorder{ended: "goes on"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		act(r)
	}()
	<-done
	return r.ended
}

func TestAMissingPartFailsAStrictRun(t *testing.T) {
	without := func(tb testing.TB) { Without(tb, "no tmux") }
	t.Setenv(Strict, "")
	require.Equal(t, "skip missing: no tmux", endOf(without))
	t.Setenv(Strict, "1")
	require.True(t, strings.HasPrefix(endOf(without), "fatal missing: no tmux"))
	require.Equal(t, "skip left out: make nightly searches", endOf(func(tb testing.TB) { Unasked(tb, "make nightly searches") }))
	require.Equal(t, "skip not applicable: no images", endOf(func(tb testing.TB) { NotApplicable(tb, "no images") }))
}

func TestALongTestIsLeftOutOfAShortRun(t *testing.T) {
	t.Parallel()
	want := "goes on"
	if testing.Short() {
		want = "skip left out: TestOther is the quick one"
	}
	require.Equal(t, want, endOf(func(tb testing.TB) { InShort(tb, "TestOther is the quick one") }))
}

func TestALateTestIsLeftOut(t *testing.T) {
	for until, want := range map[string]string{
		"":           "goes on",
		"1":          "skip left out: the time of this run was up (" + Until + ")",
		"4102444800": "goes on", // 2100
		"12:00":      `fatal ` + Until + ` is "12:00"; want the time in Unix seconds`,
	} {
		t.Setenv(Until, until)
		require.Equal(t, want, endOf(WhenLate), until)
	}
}
