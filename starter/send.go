package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/starter/internal/render"
)

type sendFlags struct {
	follow, noWait bool
	whenBusy       string
	attach         []string
	messageID      string
}

func (c *cli) sendCommand() *cobra.Command {
	var f sendFlags
	cmd := &cobra.Command{
		Use:   "send ID TEXT|-",
		Short: "Send a message, wait for the answer and print it",
		Long: `Send a message to a session. With - the text comes from standard input.
It waits for the turn and prints the answer; the exit code is 1 when the turn failed or was interrupted.`,
		Example: "  sojourn send $ID \"Run the tests\" --follow\n  git diff | sojourn send $ID - --attach screen.png",
		Args:    wants,
		RunE:    func(cmd *cobra.Command, args []string) error { return c.send(cmd.Context(), args[0], args[1], f) },
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.follow, "follow", false, "show the turn while it runs")
	fl.BoolVar(&f.noWait, "no-wait", false, "print the receipt and leave")
	fl.StringVar(&f.whenBusy, "when-busy", "", "while a turn runs: `queue|interrupt|reject` (default queue)")
	fl.StringArrayVar(&f.attach, "attach", nil, "add the image in `FILE` (repeatable)")
	fl.StringVar(&f.messageID, "message-id", "", "the message's `ID`: sending it again gives the first receipt (default: a new UUID)")
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
	if f.noWait {
		n = 0
	}
	h, err := c.handle(ctx, id, n)
	if err != nil {
		return err
	}
	stop := c.patience("waiting for a worker to take the message")
	receipt, err := h.Send(ctx, m)
	stop()
	switch {
	case err != nil:
		return err
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
	return writeLine(c.stdout, fmt.Sprintf("message %s  execution %s  after %d", r.MessageID, r.ExecutionID, r.AfterSeq))
}

// awaitTurn prints the answer when it is there.
func (c *cli) awaitTurn(ctx context.Context, h *session.Handle, r session.Receipt) error {
	stop := c.patience("the agent is at work; Ctrl-C leaves it so (--follow shows what it does)")
	res, err := h.Wait(ctx, r)
	stop()
	if err != nil {
		return err
	}
	switch {
	case c.json:
		err = c.printJSON(res)
	case res.Result != nil && res.Result.Response != "":
		err = writeLine(c.stdout, render.Clean(res.Result.Response))
	}
	if err != nil {
		return err
	}
	return turnFailed(h.ID(), res)
}

// followTurn shows events until the message's turn has ended. What comes
// before that turn, such as one that the message waits for, is not shown.
func (c *cli) followTurn(ctx context.Context, h *session.Handle, r session.Receipt) error {
	show, flush := c.shower()
	stop := sync.OnceFunc(c.patience("waiting for the agent to begin with the message"))
	defer stop()
	begun := false
	for e, err := range h.Events(ctx, r.AfterSeq, session.Follow) {
		if err != nil {
			return joinFlush(err, flush)
		}
		res, ended := session.ResultOf(e, r.MessageID)
		begun = begun || ended || begins(e, r.MessageID)
		if !begun {
			continue
		}
		stop()
		if err := show(e); err != nil {
			return err
		}
		if ended {
			return joinFlush(turnFailed(h.ID(), res), flush)
		}
	}
	return joinFlush(fmt.Errorf("session %s: %w before the turn ended", h.ID(), session.ErrClosed), flush)
}

// begins says whether e is the beginning of the message's turn.
func begins(e event.Event, messageID string) bool {
	q, ok := e.Payload.(event.QueryStarted)
	return ok && slices.Contains(q.MessageIDs, messageID)
}

// shower gives what shows events: as JSON lines, or rendered.
func (c *cli) shower() (show func(event.Event) error, flush func() error) {
	if c.json {
		return event.NewEncoder(c.stdout).Encode, func() error { return nil }
	}
	p := render.New(c.stdout, c.renderOptions(c.stdout))
	return p.Event, p.Flush
}

// joinFlush ends the output before the error is told.
func joinFlush(err error, flush func() error) error {
	if ferr := flush(); err == nil {
		return ferr
	}
	return err
}

// message makes the message and checks it before anything is connected.
func (c *cli) message(text string, f sendFlags) (session.Message, error) {
	m := session.Message{ID: f.messageID, Text: text, WhenBusy: session.BusyPolicy(f.whenBusy)}
	if m.ID == "" {
		m.ID = uuid.NewString()
	}
	if text == "-" {
		data, err := io.ReadAll(io.LimitReader(c.stdin, session.MaxMessageBytes+1))
		if err != nil {
			return m, fmt.Errorf("read the message from standard input: %w", err)
		}
		m.Text = strings.TrimRight(string(data), "\r\n")
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

// imageTypes are what models take.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// imagePart reads an image; what it is its first bytes say, not its name.
func imagePart(name string) (event.Part, error) {
	const hint = "--attach takes PNG, JPEG, GIF and WebP images; put other files into the workspace"
	f, err := os.Open(name)
	if err != nil {
		return event.Part{}, usage(hint, "attachment %s", plainPathError(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, session.MaxMessageBytes+1))
	if err != nil {
		return event.Part{}, usage(hint, "attachment %s", plainPathError(err))
	}
	mediaType := http.DetectContentType(data)
	if !slices.Contains(imageTypes, mediaType) {
		return event.Part{}, usage(hint, "attachment %s is %s", name, mediaType)
	}
	return event.Part{Type: "image", MediaType: mediaType, Data: base64.StdEncoding.EncodeToString(data)}, nil
}
