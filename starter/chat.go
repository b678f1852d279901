package starter

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/starter/internal/render"
)

func (c *cli) chatCommand() *cobra.Command {
	var whenBusy string
	cmd := &cobra.Command{
		Use:   "chat ID",
		Short: "Talk to a session and see all it does",
		Long: `Talk to a session: every line is a message, and everything that the agent and its child sessions do is shown.
Ctrl-C interrupts the running turn; once more leaves. /quit and the end of the input leave too.
When the agent asks whether it may run a tool, answer y, n, or "n because …".
Standard input may be a pipe: the lines are sent one after the other, and it waits for the answers; the exit code is 1 when
one of them was refused or left without an answer, or its turn failed or was interrupted, and 3 when the session is closed.`,
		Example: "  sojourn chat $ID\n  echo \"Say hello\" | sojourn chat $ID",
		Args:    wants,
		RunE:    func(cmd *cobra.Command, args []string) error { return c.chat(cmd.Context(), args[0], whenBusy) },
	}
	cmd.Flags().StringVar(&whenBusy, "when-busy", "", "a line while a turn runs: `queue|interrupt|reject|steer` (default queue)")
	return cmd
}

// chat runs the conversation. It handles signals itself, to distinguish an interrupt of the
// turn from leaving.
func (c *cli) chat(ctx context.Context, id, whenBusy string) error {
	if err := (session.Message{Text: "-", WhenBusy: session.BusyPolicy(whenBusy)}).Validate(); err != nil {
		return err
	}
	h, err := c.handle(ctx, id, needStream)
	if err != nil {
		return err
	}
	t := c.newTalk(h, session.BusyPolicy(whenBusy))
	after, err := t.catchUp(ctx)
	if err != nil {
		return err
	}
	signals := c.signals.own()
	if err := ctx.Err(); err != nil {
		return err // by a signal just before
	}
	talking, cancel := context.WithCancel(ctx)
	defer t.owned.Wait()
	defer cancel()
	defer c.signals.stop() // after that, one more ends the process
	t.start(talking, after)
	err = joinFlush(t.loop(talking, signals), t.tree.flush)
	return cmp.Or(err, ctx.Err())
}

// talk is a chat's state. Only the loop accesses it.
type talk struct {
	c    *cli
	h    *session.Handle
	busy session.BusyPolicy
	// tty means that a person uses it.
	tty  bool
	p    *render.Printer // nil with --json
	tree *treeShower
	// live are the child sessions that were at work before the first event that is read.
	live []string

	lines  chan string
	events chan received
	// answers are the results of requests to the session; one is in progress at a
	// time, so that lines stay in order.
	answers chan answer
	asking  bool
	// held are the lines that a person typed while one was in progress; they follow it in
	// their order.
	held []heldLine
	// stopNext requests an interrupt as soon as that message is accepted.
	stopNext bool
	owned    sync.WaitGroup

	// ours are the messages without an answer yet.
	ours  map[string]bool
	turns map[string]bool
	// asks are the open permission requests, of child sessions too; the first one is shown
	// and answered first. asked names the one that is shown.
	asks  []event.Event
	asked askID
	// deciding is the request whose answer is in progress; nil for none.
	deciding *event.Event
	signals  int
	ended    bool
	prompted bool
	// failure is set by the first thing that makes the exit code 1.
	failure error
}

// heldLine is a line that waits for the request in progress.
type heldLine struct {
	text string
	// askID is the permission request that was shown when the line was typed; zero for
	// none. The line answers no other one.
	askID askID
}

// askID identifies a permission request: sessions number theirs alike.
type askID struct{ session, request string }

// received is an event, or the error that ends them.
type received struct {
	event event.Event
	err   error
}

type answer struct {
	messageID string
	err       error
}

func (c *cli) newTalk(h *session.Handle, busy session.BusyPolicy) *talk {
	t := &talk{
		c: c, h: h, busy: busy, lines: make(chan string), events: make(chan received), answers: make(chan answer, 1),
		ours: map[string]bool{}, turns: map[string]bool{},
	}
	if c.json {
		t.tree = c.newTreeShower(nil)
		return t
	}
	_, in := terminal(c.stdin)
	o := c.renderOptions(c.stdout)
	t.tty = in && o.Rewrite
	o.Interactive = true
	t.p = render.New(c.stdout, o)
	t.tree = c.newTreeShower(t.p)
	return t
}

// start starts reading lines and events.
func (t *talk) start(ctx context.Context, after uint64) {
	t.owned.Go(func() { t.readEvents(ctx, after) })
	// A read of standard input can't be canceled: this goroutine ends with the input
	// or the program.
	go t.readLines(ctx)
}

func (t *talk) readEvents(ctx context.Context, after uint64) {
	defer close(t.events)
	for e, err := range t.h.TreeEvents(ctx, session.TreeOptions{Follow: session.Follow, After: after, Live: t.live}) {
		select {
		case t.events <- received{e.Event, err}:
		case <-ctx.Done():
			return
		}
	}
}

func (t *talk) readLines(ctx context.Context) {
	defer close(t.lines)
	in := bufio.NewReader(t.c.stdin)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			select {
			case t.lines <- strings.TrimRight(line, "\r\n"):
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// errLeave ends the loop; it is not a failure.
var errLeave = errors.New("leave")

func (t *talk) loop(ctx context.Context, signals <-chan os.Signal) error {
	for {
		t.prompt()
		err := t.step(ctx, signals)
		if err != nil {
			t.clearPrompt()
			t.reportUnsent()
		}
		if errors.Is(err, errLeave) {
			return t.outcome()
		}
		if err != nil {
			return err
		}
	}
}

// outcome returns what makes the exit code of a chat that was left.
func (t *talk) outcome() error {
	switch {
	case t.tty:
		return nil // a person has seen what failed
	case t.failure == nil && len(t.ours) > 0:
		return failed("sojourn wait "+t.h.ID()+" waits for it", "left session %s before its answer", t.h.ID())
	}
	return t.failure
}

// reportUnsent reports, at the end, lines that may not have arrived.
func (t *talk) reportUnsent() {
	if t.asking {
		t.hint("the session has not answered the last request; it may still obey it")
	}
	for _, line := range t.held {
		t.notSent(line)
	}
}

func (t *talk) notSent(line heldLine) { t.hint("not sent: " + line.text) }

// step handles the next event, line, answer or signal.
func (t *talk) step(ctx context.Context, signals <-chan os.Signal) error {
	if !t.asking && len(t.held) > 0 {
		next := t.held[0]
		t.held = t.held[1:]
		return t.sayHeld(ctx, next)
	}
	lines := t.lines
	if t.ended || t.scripted() {
		lines = nil
	}
	if t.ended && !t.asking && len(t.ours) == 0 {
		return errLeave
	}
	select {
	case line, more := <-lines:
		t.ended = !more
		return t.line(ctx, strings.TrimSpace(line))
	case s, more := <-t.events:
		return t.event(s, more)
	case a := <-t.answers:
		return t.answered(ctx, a)
	case s := <-signals:
		return t.signal(ctx, s)
	}
}

// scripted reports whether lines from a pipe must wait for the previous answer.
func (t *talk) scripted() bool { return !t.tty && (t.asking || len(t.ours) > 0 && len(t.asks) == 0) }

// line handles a line of the input. Commands are obeyed at once: a person must get away also
// while the session does not answer.
func (t *talk) line(ctx context.Context, line string) error {
	t.prompted, t.signals = false, 0
	if t.tty {
		t.p.Moved() // the terminal has shown the line and its end
	}
	switch {
	case line == "":
		return nil
	case line == "/quit":
		return errLeave
	case line == "/interrupt":
		t.interrupt(ctx)
		return nil
	case t.asking:
		t.held = append(t.held, heldLine{line, t.firstAsk()})
		return nil
	}
	return t.say(ctx, line)
}

// sayHeld says a line that waited, unless another request is shown now than when it was
// typed: a "y" must not allow what the person had not seen.
func (t *talk) sayHeld(ctx context.Context, line heldLine) error {
	if line.askID == t.firstAsk() {
		return t.say(ctx, line.text)
	}
	t.notSent(line)
	t.asked = askID{}
	return t.showAsk()
}

// firstAsk identifies the request that is shown and answered first; zero for none.
func (t *talk) firstAsk() askID {
	if len(t.asks) == 0 {
		return askID{}
	}
	return askID{t.asks[0].Context.SessionID, t.asks[0].Payload.(event.PermissionRequested).RequestID}
}

// say says a line to the session: as a message, or as the answer to a permission request.
func (t *talk) say(ctx context.Context, line string) error {
	if len(t.asks) > 0 {
		return t.decide(ctx, line)
	}
	m, err := literal(line, sendFlags{whenBusy: string(t.busy)})
	if err != nil {
		return t.refused(err)
	}
	if t.tty {
		t.p.Typed(line)
	}
	t.ours[m.ID] = true
	t.ask(func() answer {
		_, err := t.h.Send(ctx, m)
		return answer{m.ID, err}
	})
	return nil
}

// ask sends a request to the session outside the loop. The channel has room for
// its answer, so it never blocks.
func (t *talk) ask(request func() answer) {
	t.asking = true
	t.owned.Go(func() { t.answers <- request() })
}

func (t *talk) answered(ctx context.Context, a answer) error {
	t.asking = false
	undecided := t.deciding
	t.deciding = nil
	if t.stopNext {
		t.interrupt(ctx)
	}
	if a.err == nil {
		return nil
	}
	delete(t.ours, a.messageID)
	if errors.Is(a.err, session.ErrClosed) {
		return a.err
	}
	if err := t.refused(a.err); err != nil {
		return err
	}
	return t.askAgain(undecided, a.err)
}

// askAgain shows a request again whose answer did not reach the session. Without it the next
// "y" would be a message. A request that the session refused is not open any more.
func (t *talk) askAgain(undecided *event.Event, err error) error {
	if undecided == nil || errors.As(err, new(*session.InvalidError)) {
		return nil
	}
	t.asks, t.asked = slices.Insert(t.asks, 0, *undecided), askID{}
	return t.showAsk()
}

// refused prints an error that does not end the chat. A failed request of a
// script shows in the exit code at the end, whatever succeeds after it.
func (t *talk) refused(err error) error {
	t.failure = errReported
	t.aside(func() { t.c.report(err, false) })
	return nil
}

// aside writes something that is not part of the conversation.
func (t *talk) aside(write func()) {
	t.clearPrompt()
	if t.p == nil {
		write()
		return
	}
	t.p.Break()
	write()
	t.p.Moved()
}

// decide reads a line as the answer to a permission request.
func (t *talk) decide(ctx context.Context, line string) error {
	word, why, _ := strings.Cut(line, " ")
	first := t.asks[0]
	var req session.RespondRequest
	switch strings.ToLower(word) {
	case "y", "yes":
		req.Allow = true
	case "n", "no":
		req.Message = strings.TrimSpace(why)
	default:
		return t.refused(usage("y allows it, n denies it, and what follows n is told to the agent", "the agent waits for y or n"))
	}
	t.deciding, t.asks = &first, t.asks[1:]
	t.ask(func() answer { return answer{err: t.h.RespondTo(ctx, first, req)} })
	return t.showAsk()
}

func (t *talk) event(s received, more bool) error {
	if !more {
		return t.closed()
	}
	if s.err != nil {
		return s.err
	}
	t.clearPrompt()
	t.note(s.event)
	_, asks := s.event.Payload.(event.PermissionRequested)
	if asks && t.p != nil {
		return t.showAsk()
	}
	if err := t.tree.show(s.event); err != nil {
		return err
	}
	return t.showAsk()
}

// closed ends the chat with the session, which is a failure unless all that was said, or is to
// be, has its answer.
func (t *talk) closed() error {
	if t.ended && len(t.ours) == 0 {
		return errLeave
	}
	return fmt.Errorf("session %s: %w", t.h.ID(), session.ErrClosed)
}

// showAsk shows the request that the next answer is for. Others wait for that
// answer: the approved request must be the one that the screen showed last.
func (t *talk) showAsk() error {
	if t.p == nil || len(t.asks) == 0 || t.firstAsk() == t.asked {
		return nil
	}
	t.asked = t.firstAsk()
	return t.tree.show(t.asks[0])
}

// note tracks turns and open requests.
func (t *talk) note(e event.Event) {
	t.asks = session.OpenRequests(t.asks, e)
	if t.deciding != nil && len(session.OpenRequests([]event.Event{*t.deciding}, e)) == 0 {
		t.deciding = nil
	}
	if t.tree.branches[e.Context.SessionID].path != nil {
		return // of a turn below
	}
	switch b := e.Payload.(type) {
	case event.QueryStarted:
		t.turns[b.ExecutionID] = true
	case event.QueryCompleted:
		t.turnEnded(b.Query, nil)
	case event.QueryFailed:
		t.turnEnded(b.Query, errReported)
	case event.QueryInterrupted:
		t.turnEnded(b.Query, errReported)
	}
}

func (t *talk) turnEnded(q event.Query, failure error) {
	delete(t.turns, q.ExecutionID)
	for _, id := range q.MessageIDs {
		if t.ours[id] {
			delete(t.ours, id)
			if failure != nil {
				t.failure = failure
			}
		}
	}
}

// signal first interrupts the turn, and after that leaves.
func (t *talk) signal(ctx context.Context, s os.Signal) error {
	t.signals++
	if s == syscall.SIGTERM || t.signals > 1 {
		return errLeave
	}
	if len(t.turns) == 0 && len(t.ours) == 0 {
		t.hint("Ctrl-C again leaves")
		return nil
	}
	t.hint("interrupting the turn; Ctrl-C again leaves")
	t.interrupt(ctx)
	return nil
}

// interrupt stops the running turn, or the one that a message on its way will
// start.
func (t *talk) interrupt(ctx context.Context) {
	if t.asking {
		t.stopNext = true
		return
	}
	t.stopNext = false
	t.ask(func() answer {
		_, err := t.h.Interrupt(ctx, session.InterruptRequest{Reason: "by the user"})
		return answer{err: err}
	})
}

// hint prints a line for the person.
func (t *talk) hint(line string) {
	t.aside(func() { fmt.Fprintf(t.c.stderr, "sojourn: %s\n", line) })
}

// prompt shows, on a terminal, what input is expected.
func (t *talk) prompt() {
	if !t.tty || t.prompted || t.asking || t.p.Midline() {
		return // text of a session below may be streaming
	}
	text := "› "
	switch {
	case len(t.asks) > 0:
		text = "allow? y/n "
	case len(t.turns) > 0 || len(t.ours) > 0:
		return
	}
	t.prompted = true
	_, _ = io.WriteString(t.c.stdout, text)
}

func (t *talk) clearPrompt() {
	if t.prompted {
		_, _ = io.WriteString(t.c.stdout, "\r\x1b[2K")
	}
	t.prompted = false
}
