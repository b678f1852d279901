package starter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/archive/store"
	"github.com/sojourn-run/sojourn/batch"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/starter/internal/render"
	"github.com/sojourn-run/sojourn/stream"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	// exitRefused: the session refused, and nothing was changed.
	exitRefused = 3
	// exitInterrupted: the awaited turn was interrupted.
	exitInterrupted = 4
	exitTimedOut    = 5
)

// exitCodes is their description for scripts.
const exitCodes = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused by the session (busy, paused, closed, taken id, too deep), 4 the turn was interrupted, 5 timed out."

// failure is this program's form of an error: one line, a hint, a code.
type failure struct {
	line, hint string
	code       int
	// stopped marks the text for a stop by a signal.
	stopped bool
}

func (f *failure) Error() string { return f.line }

// usage returns an error for wrong usage: nothing was tried.
func usage(hint, format string, args ...any) error {
	return &failure{line: fmt.Sprintf(format, args...), hint: hint, code: exitUsage}
}

// failed returns an error for a failed operation.
func failed(hint, format string, args ...any) error {
	return &failure{line: fmt.Sprintf(format, args...), hint: hint, code: exitFailed}
}

// leftAt returns an error for a stop by a signal or by --timeout: rest follows
// "stopped" or "timed out" and describes what becomes of the request.
func leftAt(ctx context.Context, hint, rest string, args ...any) error {
	how, code := "stopped", exitFailed
	if late, ok := errors.AsType[*timedOut](context.Cause(ctx)); ok {
		how, code = late.Error(), exitTimedOut
	}
	return &failure{line: how + fmt.Sprintf(rest, args...), hint: hint, code: code, stopped: true}
}

// timedOut is the cause of a context that ended by --timeout.
type timedOut struct{ after time.Duration }

func (t *timedOut) Error() string { return "timed out after " + t.after.String() }

func timeoutFlag(cmd *cobra.Command, d *time.Duration) {
	cmd.Flags().DurationVar(d, "timeout", 0, "wait at most for the `TIME`, such as 90s, then exit with 5; running turns continue (default: no end)")
}

// within calls run with the bound of --timeout; 0 is no bound.
func within(ctx context.Context, d time.Duration, run func(context.Context) error) error {
	if d == 0 {
		return run(ctx)
	}
	if d < 0 {
		return usage("--timeout wants a time such as 90s", "--timeout: %s is negative", d)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d, &timedOut{d})
	defer cancel()
	ctx = byClock{ctx}
	err := run(ctx)
	if _, said := errors.AsType[*failure](err); err == nil || said || ctx.Err() == nil {
		return err
	}
	return leftAt(ctx, "what was accepted goes on in the session", "")
}

// byClock is a context that has ended as soon as its deadline is past: a request may return
// for its deadline before the timer has ended the context.
type byClock struct{ context.Context }

func (b byClock) Err() error {
	if deadline, ok := b.Deadline(); ok && !time.Now().Before(deadline) {
		<-b.Done()
	}
	return b.Context.Err()
}

// flagsOf maps fields to the flags that set them, if the names differ.
var flagsOf = map[string]string{
	"roles": "role", "maxTokens": "max-tokens", "maxTimelineEntries": "max-timeline-entries",
	"limits.costUSD": "max-cost", "limits.tokens": "max-tokens", "limits.turns": "max-turns", "limits.workMs": "max-work",
	"limits.modelCalls": "max-calls", "maxTicks": "max-ticks", "message.maxTicks": "max-ticks", "permissionDeadline.afterMs": "permission-deadline",
	"idleTimeoutMs": "idle-timeout", "noProgressMs": "no-progress", "metadata": "meta", "tags": "tag", "systemPrompt": "system-prompt",
	"maxCostUSD": "budget", "message.whenBusy": "when-busy", "message.id": "message-id", "message.text": "message",
}

// inFlagsWords names the flag in an error about a field that a flag has set,
// since users know the flag.
func (c *cli) inFlagsWords(err error) error {
	invalid, ok := errors.AsType[*session.InvalidError](err)
	if !ok || c.given == nil {
		return err
	}
	name := cmp.Or(flagsOf[invalid.Field], invalid.Field)
	if !c.given(name) {
		return err
	}
	return session.Invalid("--"+name, invalid.Reason, invalid.Want)
}

// errReported is a failure that is already printed.
var errReported = errors.New("reported")

// report prints an error as one line and a hint line, and returns the exit code.
func (c *cli) report(err error, stopped bool) int {
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errReported):
		return exitFailed
	case errors.Is(err, syscall.EPIPE) && !errors.As(err, new(*net.OpError)):
		// The reader has stopped, as in `sojourn show ID | head`; a server has not.
		return exitFailed
	}
	f := explain(c.inFlagsWords(err))
	if stopped && !f.stopped {
		f = &failure{line: "stopped", hint: "what was accepted goes on in the session", code: exitFailed}
	}
	fmt.Fprintf(c.stderr, "sojourn: %s\n", oneLine(f.line))
	if f.hint != "" {
		fmt.Fprintf(c.stderr, "sojourn: hint: %s\n", oneLine(f.hint))
	}
	return f.code
}

// warn prints a line about something that does not stop the command.
func (c *cli) warn(format string, args ...any) {
	fmt.Fprintf(c.stderr, "sojourn: warning: %s\n", oneLine(fmt.Sprintf(format, args...)))
}

// oneLine also makes an agent's text safe for a terminal.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(render.Clean(s), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// hints are what to do about the errors that callers can distinguish.
var hints = []struct {
	err  error
	hint string
}{
	{session.ErrNotFound, "sojourn ls --all lists the sessions"},
	{session.ErrNotBegun, "sojourn doctor lists the workers that run"},
	{session.ErrClosed, "sojourn open ID reopens it"},
	{session.ErrExists, "choose another --id, or send it a message: sojourn send ID TEXT"},
	{session.ErrBusy, "wait for the turn, or send with --when-busy queue"},
	{session.ErrPaused, "sojourn configure ID --max-… raises the limit"},
	{batch.ErrEnded, "sojourn batch results BATCH has its results"},
	{session.ErrConflict, "give the message an id of its own, or send it without --message-id"},
	{session.ErrDepthLimit, "spawn from a session nearer to the root"},
	{session.ErrNoWorker, "start a worker (sojourn-worker); sojourn doctor lists those that run"},
	{session.ErrUnavailable, hintTemporal},
	{adapters.ErrNotInstalled, "sojourn agents lists the agents, and the hosts that have them"},
	{adapters.ErrNoTranscript, hintTranscript},
	{stream.ErrPurged, "sojourn show ID reads the whole conversation from the archive"},
	{stream.ErrGap, "sojourn show ID reads the whole conversation from the archive"},
	{archive.ErrNotFound, "sojourn ls --all lists the sessions"},
	{context.DeadlineExceeded, "sojourn doctor checks every part"},
}

const hintNamespace = "make it (temporal operator namespace create), or set TEMPORAL_NAMESPACE to one that is there"

// hinted is an error that knows what to do about it.
type hinted interface {
	error
	Hint() string
}

// explain converts any error into one line and a hint.
func explain(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if invalid, ok := errors.AsType[*session.InvalidError](err); ok {
		return &failure{line: invalid.Field + ": " + invalid.Reason, hint: invalid.Hint(), code: exitUsage}
	}
	if h, ok := errors.AsType[hinted](err); ok {
		return &failure{line: err.Error(), hint: h.Hint(), code: exitFailed}
	}
	if away, ok := errors.AsType[*store.ConnectError](err); ok {
		return &failure{line: away.Error(), hint: away.Hint, code: exitFailed}
	}
	if nats, ok := errors.AsType[*stream.UnreachableError](err); ok {
		return &failure{line: nats.Error(), hint: nats.Hint, code: exitFailed}
	}
	if ns, ok := errors.AsType[*serviceerror.NamespaceNotFound](err); ok {
		return &failure{line: fmt.Sprintf("Temporal has no namespace %q", ns.Namespace), hint: hintNamespace, code: exitFailed}
	}
	if out, ok := errors.AsType[*os.PathError](err); ok && out.Op == "write" && out.Path == os.Stdout.Name() {
		return &failure{line: "write to standard output: " + out.Err.Error(), hint: "what is on standard output is not whole; write it where there is room", code: exitFailed}
	}
	f := &failure{line: err.Error(), hint: "sojourn doctor checks every part", code: exitFailed}
	for _, h := range hints {
		if errors.Is(err, h.err) {
			f.hint = h.hint
			break
		}
	}
	if slices.ContainsFunc(refusals, func(no error) bool { return errors.Is(err, no) }) {
		f.code = exitRefused
	}
	return f
}

// refusals are the errors with which a session refuses.
var refusals = []error{session.ErrClosed, session.ErrExists, session.ErrBusy, session.ErrPaused, session.ErrConflict, session.ErrDepthLimit, session.ErrRestoreCanceled, batch.ErrEnded}

// inWordsOf returns the error of a request about something that is no session, whose errors it
// shares.
func inWordsOf(what, id, hint string, err error) error {
	switch {
	case errors.Is(err, session.ErrNotFound):
		return failed(hint, "there is no %s %s", what, id)
	case errors.Is(err, session.ErrExists):
		return &failure{line: fmt.Sprintf("there is a %s %s already", what, id), hint: "choose another id", code: exitRefused}
	}
	return err
}

// turnFailed returns the error for an execution that was not completed.
func turnFailed(id string, r session.Result) error {
	err := r.Err()
	if err == nil {
		return nil
	}
	f := &failure{line: cmp.Or(err.Error(), "the turn failed"), hint: "sojourn show " + id + " shows how far it came", code: exitFailed}
	if r.Outcome == session.Interrupted {
		f.code = exitInterrupted
	}
	return f
}

// writeLine writes a line to a stream whose reader may stop.
func writeLine(w io.Writer, s string) error {
	_, err := io.WriteString(w, s+"\n")
	return err
}

// plainPathError removes the name of the system call.
func plainPathError(err error) string {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Path + ": " + p.Err.Error()
	}
	return err.Error()
}
