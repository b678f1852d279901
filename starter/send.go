package starter

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/jsonl"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/starter/internal/render"
	"github.com/sojourn-run/sojourn/stream"
)

type sendFlags struct {
	follow, noWait bool
	whenBusy       string
	attach         []string
	messageID      string
	timeout        time.Duration
	maxTicks       int
}

func (c *cli) sendCommand() *cobra.Command {
	var f sendFlags
	cmd := &cobra.Command{
		Use:   "send ID TEXT|-",
		Short: "Send a message, wait for the answer and print it",
		Long: `Send a message to a session. With - the text comes from standard input.
It waits for the turn and prints the answer; the exit code is 1 when the turn failed, 4 when it was interrupted.`,
		Example: "  sojourn send $ID \"Run the tests\" --follow\n  git diff | sojourn send $ID - --attach screen.png",
		Args:    wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			return within(cmd.Context(), f.timeout, func(ctx context.Context) error { return c.send(ctx, args[0], args[1], f) })
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.follow, "follow", false, "show the turn while it runs")
	fl.BoolVar(&f.noWait, "no-wait", false, "print the receipt and leave")
	fl.StringVar(&f.whenBusy, "when-busy", "", "while a turn runs: `queue|interrupt|reject|steer` (default queue)")
	fl.StringArrayVar(&f.attach, "attach", nil, "add the image in `FILE` (repeatable)")
	fl.StringVar(&f.messageID, "message-id", "", "the message's `ID`: sending it again returns the first receipt (default: a new UUID)")
	fl.IntVar(&f.maxTicks, "max-ticks", 0, "end the turn behind `N` model calls (default: the session's)")
	timeoutFlag(cmd, &f.timeout)
	return cmd
}

func (c *cli) send(ctx context.Context, id, text string, f sendFlags) error {
	if f.follow && f.noWait {
		return usage("give one of them", "--follow and --no-wait exclude each other")
	}
	m, err := c.message(text, f)
	if err != nil {
		return err
	}
	n := needStream
	if f.noWait && m.WhenBusy != session.BusyReject {
		n = 0
	}
	h, err := c.handle(ctx, id, n)
	if err != nil && ctx.Err() != nil {
		return leftAt(ctx, "send it again; sojourn doctor tells whether the services answer", "; the message was not sent")
	}
	if err != nil {
		return err
	}
	stop := c.patience("waiting for a worker to take message %s", m.ID)
	receipt, err := h.Send(ctx, m)
	stop()
	switch {
	case err != nil:
		again := fmt.Sprintf("ask again with the same text: sojourn send %s TEXT --message-id %s (one id never runs twice)", h.ID(), m.ID)
		return unconfirmed(ctx, h.ID(), "message "+m.ID, again, err)
	case f.noWait:
		return c.printReceipt(receipt)
	case f.follow:
		return c.followTurn(ctx, h, receipt)
	}
	return c.awaitTurn(ctx, h, receipt)
}

func (c *cli) printReceipt(r session.Receipt) error {
	if c.json {
		return c.printJSON(r)
	}
	line := fmt.Sprintf("message %s  execution %s  after %d", r.MessageID, r.ExecutionID, r.AfterSeq)
	if r.Handling != "" {
		line += "  " + string(r.Handling)
	}
	return writeLine(c.stdout, line)
}

// unconfirmed returns the error of a request to a session that may have arrived
// all the same: Temporal keeps an accepted request until a worker polls.
func unconfirmed(ctx context.Context, id, what, hint string, err error) error {
	switch {
	case ctx.Err() != nil:
		return leftAt(ctx, hint, " before session %s confirmed %s: it may still run", id, what)
	case errors.Is(err, session.ErrUnavailable):
		return failed(hint, "%s; %s may still run", err, what)
	}
	return err
}

// awaitTurn prints the answer when it arrives. Meanwhile it prints on standard
// error what a person must know: the agent's permission requests, and what is
// retried.
func (c *cli) awaitTurn(ctx context.Context, h *session.Handle, r session.Receipt) error {
	stop := c.sayPending(ctx, h, "the agent is at work; Ctrl-C leaves it so (--follow shows what it does)")
	notices := render.New(c.stderr, c.renderOptions(c.stderr))
	res, err := h.Watch(ctx, r, func(e event.Event) { _ = notices.Notice(e) }) // errors of standard error don't matter
	stop()
	if err != nil {
		return leftRunning(ctx, r, err)
	}
	return c.printEnd(h.ID(), res)
}

// leftRunning returns the error of an ended wait for an accepted message. The session has
// dropped the result of one that it does not find.
func leftRunning(ctx context.Context, r session.Receipt, err error) error {
	switch {
	case errors.Is(err, session.ErrNotFound):
		return failed("sojourn show "+r.SessionID+" has the whole conversation",
			"message %s was answered long ago, and session %s keeps its last %d results only", r.MessageID, r.SessionID, session.KeptResults)
	case ctx.Err() == nil:
		return err
	}
	return leftAt(ctx, fmt.Sprintf("sojourn wait %s %s waits again", r.SessionID, r.MessageID),
		"; message %s is accepted and runs on in session %s", r.MessageID, r.SessionID)
}

func (c *cli) printResult(id string, res session.Result) error {
	if c.json {
		return c.printJSON(res)
	}
	if res.Result == nil || res.Result.Response == "" {
		return nil
	}
	if err := writeLine(c.stdout, render.Clean(res.Result.Response)); err != nil {
		return err
	}
	if res.Result.Truncated {
		c.warn("the answer is cut; sojourn show %s has all of it, as block %s", id, res.Result.ResponseBlockID)
	}
	return nil
}

// followTurn shows events until the message's turn has ended. Earlier events,
// such as those of a turn that the message waits for, are not shown. Without the turn's
// beginning, which may be past the stream's retention, it prints the answer.
func (c *cli) followTurn(ctx context.Context, h *session.Handle, r session.Receipt) error {
	show, flush := c.shower()
	stop := sync.OnceFunc(c.sayPending(ctx, h, "waiting for the agent to begin with the message"))
	defer stop()
	for e, err := range h.Execution(r).Events(ctx) {
		stop()
		if errors.Is(err, stream.ErrPurged) {
			c.warn("%s", err)
			return joinFlush(c.awaitTurn(ctx, h, r), flush)
		}
		if err != nil {
			return joinFlush(leftRunning(ctx, r, err), flush)
		}
		if err := show(e); err != nil {
			return err
		}
		if res, ended := session.ResultOf(e, r.MessageID); ended {
			h.AwaitState(ctx, res.ExecutionID)
			return joinFlush(turnFailed(h.ID(), res), flush)
		}
	}
	return flush()
}

// shower returns the function that shows events: as JSON lines, or rendered.
func (c *cli) shower() (show func(event.Event) error, flush func() error) {
	if c.json {
		return jsonl.NewEncoder(c.stdout).Encode, func() error { return nil }
	}
	p := render.New(c.stdout, c.renderOptions(c.stdout))
	return p.Event, p.Flush
}

// joinFlush ends the output before the error is printed.
func joinFlush(err error, flush func() error) error {
	if ferr := flush(); err == nil {
		return ferr
	}
	return err
}

// message returns the message, whose text "-" is standard input. It is validated before
// anything is connected.
func (c *cli) message(text string, f sendFlags) (session.Message, error) {
	if text == "-" {
		data, err := c.wholeStdin()
		if err != nil {
			return session.Message{}, fmt.Errorf("read the message from standard input: %w", err)
		}
		text = strings.TrimRight(string(data), "\r\n")
	}
	return literal(text, f)
}

// literal returns the message with exactly this text, validated.
func literal(text string, f sendFlags) (session.Message, error) {
	m := session.Message{ID: f.messageID, Text: text, WhenBusy: session.BusyPolicy(f.whenBusy), MaxTicks: f.maxTicks}
	if m.ID == "" {
		m.ID = uuid.NewString()
	}
	if !utf8.ValidString(m.Text) {
		return m, usage("send text in UTF-8; other things can be put into the workspace as files", "message.text: is not UTF-8")
	}
	for _, name := range f.attach {
		part, err := imagePart(name)
		if err != nil {
			return m, err
		}
		m.Parts = append(m.Parts, part)
	}
	return m, m.Validate()
}

// imageTypes are the types that models accept.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// imagePart reads an image; its first bytes determine its type, not its name.
func imagePart(name string) (event.Part, error) {
	const hint = "--attach takes PNG, JPEG, GIF and WebP images; put other files into the workspace"
	f, err := os.Open(name)
	if err != nil {
		return event.Part{}, usage(hint, "--attach: %s", plainPathError(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, session.MaxMessageBytes+1))
	if err != nil {
		return event.Part{}, usage(hint, "--attach: %s", plainPathError(err))
	}
	mediaType := http.DetectContentType(data)
	if !slices.Contains(imageTypes, mediaType) {
		return event.Part{}, usage(hint, "--attach: %s is %s", name, mediaType)
	}
	return event.Part{Type: "image", MediaType: mediaType, Data: base64.StdEncoding.EncodeToString(data)}, nil
}
