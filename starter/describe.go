package starter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/starter/internal/render"
)

// description is the output of describe --json.
type description struct {
	session.Inspection
	// Requests are the permission requests that wait for a person.
	Requests []event.PermissionRequested `json:"requests"`
}

func (c *cli) describeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "describe ID",
		Short: "Show what a session does and has: status, host, queue, requests, last failure, children, archive",
		Args:  wants,
		RunE:  func(cmd *cobra.Command, args []string) error { return c.describe(cmd.Context(), args[0]) },
	}
}

func (c *cli) inspect(ctx context.Context, id string) (i session.Inspection, err error) {
	err = c.request(ctx, id, func(ctx context.Context, h *session.Handle) error {
		i, err = h.Inspect(ctx)
		return err
	})
	return i, err
}

func (c *cli) describe(ctx context.Context, id string) error {
	i, err := c.inspect(ctx, id)
	if err != nil {
		return err
	}
	if i.Status == session.StatusClosed {
		c.amended(ctx, &i)
	}
	d := description{Inspection: i, Requests: c.requests(ctx, i)}
	if c.json {
		return c.printJSON(d)
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	return errors.Join(describeTo(w, d, time.Now()), w.Flush())
}

// amended adds what was changed of a session since it was closed.
func (c *cli) amended(ctx context.Context, i *session.Inspection) {
	var data archive.ListData
	store, err := c.archiveAnswers(ctx)
	if err == nil {
		data, err = store.Session(ctx, i.SessionID)
	}
	switch {
	case err == nil:
		i.Amended(data)
	case !errors.Is(err, archive.ErrNotFound):
		c.warn("title, metadata and tags are as session %s was closed: %s", i.SessionID, explain(err).line)
	}
}

// requests returns the open requests of a session, with their content if the
// stream can be read, else their ids alone.
func (c *cli) requests(ctx context.Context, i session.Inspection) []event.PermissionRequested {
	open := []event.PermissionRequested{}
	if len(i.Pending) == 0 {
		return open
	}
	asked := map[string]event.PermissionRequested{}
	asks, err := c.asks(ctx, i.SessionID)
	if err != nil {
		c.warn("what session %s asks is not shown: %s", i.SessionID, explain(err).line)
	}
	for _, ask := range asks {
		p := ask.Payload.(event.PermissionRequested)
		asked[p.RequestID] = p
	}
	if i.Parked != nil {
		// Long after the request the stream has it no more.
		for _, r := range i.Parked.Requests {
			if _, have := asked[r.ID]; !have {
				asked[r.ID] = r.Event()
			}
		}
	}
	for _, id := range i.Pending {
		p := asked[id]
		p.RequestID = id
		open = append(open, p)
	}
	return open
}

// describeTo writes a line for each known property.
func describeTo(w io.Writer, d description, now time.Time) error {
	var bad error
	row := func(name, format string, args ...any) {
		_, err := fmt.Fprintf(w, "%s\t%s\n", name, oneLine(fmt.Sprintf(format, args...)))
		bad = errors.Join(bad, err)
	}
	row("session", "%s", d.SessionID)
	if d.Title != "" {
		row("title", "%s", d.Title)
	}
	row("agent", "%s", d.Agent+suffix(", profile ", d.Profile))
	if parts := partsLine(d.Parts); parts != "" {
		row("profile has", "%s", parts)
	}
	row("status", "%s", string(d.Status)+parkedSince(d.Parked)+suffix(", waits for ", d.WaitsFor))
	if d.Sandbox != nil {
		row("host", "%s, sandbox %s", d.Sandbox.Host, d.Sandbox.ID)
	} else {
		row("host", "none; %s makes a sandbox", map[bool]string{true: "the answer", false: "the next message"}[d.Parked != nil])
	}
	row("turns", "%d, %s, %d tokens in, %d out", d.Turns, cmp.Or(render.Cost(d.CostUSD), "–"), d.Usage.InputTokens, d.Usage.OutputTokens)
	row("model calls", "%s%s", number(d.TickCount, "unknown"), suffix(", at work on call ", number(d.CurrentTick, "")))
	for i, t := range d.LastTools {
		row(first(i, "last tools"), "%s %s%s", t.Name, t.Input, suffix(" → ", cmp.Or(ptrOr(t.Output), "…")))
	}
	if d.LastOutcome != "" {
		row("last turn", "%s", d.LastOutcome)
	}
	if d.Failure != nil {
		row("failure", "%s", d.Failure.Message)
	}
	for i, m := range d.Queued {
		row(first(i, "queue"), "%d  %s  %s", i+1, m.ID, render.Short(m.Text, maxTitle))
	}
	for i, r := range d.Requests {
		row(first(i, "requests"), "%s", requestLine(r))
	}
	for i, child := range d.Children {
		row(first(i, "children"), "%s (%s)", child.SessionID, child.Agent)
	}
	if len(d.Background) > 0 {
		row("at work", "%s", strings.Join(d.Background, ", ")+", left in the background")
	}
	row("archive", "%s", cmp.Or(d.ArchiveBehind, "up to the last turn"))
	row("created", "%s (%s)", d.CreatedAt.Format(time.RFC3339), ago(now.Sub(d.CreatedAt)))
	return bad
}

// partsLine names what a profile has for the agent; "" for nothing.
func partsLine(p adapters.Parts) string {
	var parts []string
	if p.Instructions {
		parts = append(parts, "instructions")
	}
	for _, kind := range []struct {
		name string
		of   []string
	}{
		{"rules", p.Rules}, {"skills", p.Skills}, {"subagents", p.Subagents}, {"commands", p.Commands}, {"MCP servers", p.MCPServers},
	} {
		if len(kind.of) > 0 {
			parts = append(parts, kind.name+" "+strings.Join(kind.of, ", "))
		}
	}
	if p.PermissionRules > 0 {
		parts = append(parts, fmt.Sprintf("permission rules %d", p.PermissionRules))
	}
	return strings.Join(parts, "; ")
}

// number is a figure, or what stands for one that is not known.
func number(n *int, unknown string) string {
	if n == nil {
		return unknown
	}
	return fmt.Sprint(*n)
}

func ptrOr(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// parkedSince is since when a turn is parked; "" for none that is.
func parkedSince(p *permission.Parked) string {
	if p == nil {
		return ""
	}
	return ", parked since " + p.Since.Format(time.RFC3339)
}

// suffix is value behind what introduces it, or nothing.
func suffix(before, value string) string {
	if value == "" {
		return ""
	}
	return before + value
}

// first returns the name for the first of several rows.
func first(i int, name string) string {
	if i > 0 {
		return ""
	}
	return name
}

// requestLine returns a request with everything that it asks for: what is
// approved is never truncated.
func requestLine(r event.PermissionRequested) string {
	asks := cmp.Or(r.ToolName, r.Title)
	what := string(r.Input)
	if len(r.Questions) > 0 {
		asks, what = cmp.Or(asks, "question"), string(r.Questions)
	}
	return strings.TrimSpace(r.RequestID + "  " + asks + " " + what)
}

func (c *cli) inboxCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "inbox",
		Short: "List all that waits for a person: open permission requests, and sessions that a limit has paused",
		Args:  wants,
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.inbox(cmd.Context()) },
	}
}

// waiting is one entry of the inbox: a request, or the limit that was reached.
type waiting struct {
	SessionID string                     `json:"sessionId"`
	Title     string                     `json:"title"`
	Agent     string                     `json:"agent"`
	Request   *event.PermissionRequested `json:"request,omitempty"`
	Limit     string                     `json:"limit,omitempty"`
	// ParkedSince is when the turn was parked that waits with the request.
	ParkedSince *time.Time `json:"parkedSince,omitempty"`
}

// line describes what it waits for.
func (w waiting) line() string {
	if w.Request == nil {
		return w.Limit
	}
	line := requestLine(*w.Request)
	if w.ParkedSince != nil {
		line += " (parked since " + w.ParkedSince.Format(time.RFC3339) + ")"
	}
	return line
}

// maxInbox bounds how many sessions are queried for what they wait for.
const maxInbox = 1000

func (c *cli) inbox(ctx context.Context) error {
	sc, err := c.client(ctx, needTemporal)
	if err != nil {
		return err
	}
	stop := sync.OnceFunc(c.patience("asking the sessions that wait"))
	defer stop()
	open, err := collect(ctx, sc, listFlags{query: fmt.Sprintf("%s IN ('%s', '%s')", session.AttrStatus.GetName(), session.StatusWaiting, session.StatusPaused), all: true, limit: maxInbox})
	if err != nil {
		return err
	}
	found, missing, err := c.inboxOf(ctx, open.Sessions, c.inspect)
	if err != nil {
		return err
	}
	stop()
	return c.printInbox(found, missing)
}

// inboxOf returns what sessions wait for. missing reports whether one of them did not
// answer, which is printed: the others' requests must not depend on it.
func (c *cli) inboxOf(ctx context.Context, open []session.Summary, inspect func(context.Context, string) (session.Inspection, error)) (found []waiting, missing bool, err error) {
	found = []waiting{}
	for _, s := range open {
		i, err := inspect(ctx, s.SessionID)
		switch {
		case err == nil:
			found = append(found, c.entries(ctx, s.SessionID, i)...)
		case errors.Is(err, session.ErrClosed) || errors.Is(err, session.ErrNotFound):
			// It was closed meanwhile.
		case ctx.Err() != nil || errors.Is(err, session.ErrUnavailable):
			return nil, false, err // of every session
		default:
			missing = true
			c.warn("what session %s waits for is not known: %s", s.SessionID, explain(err).line)
		}
	}
	return found, missing, nil
}

// entries returns what one session waits for.
func (c *cli) entries(ctx context.Context, id string, i session.Inspection) []waiting {
	var found []waiting
	entry := waiting{SessionID: id, Title: i.Title, Agent: i.Agent}
	if i.Status == session.StatusPaused {
		entry.Limit = i.WaitsFor
		found = append(found, entry)
	}
	if i.Parked != nil {
		entry.ParkedSince = &i.Parked.Since
	}
	for _, r := range c.requests(ctx, i) {
		entry.Request = &r
		found = append(found, entry)
	}
	return found
}

// printInbox prints the entries. With missing ones the exit code is 1.
func (c *cli) printInbox(found []waiting, missing bool) error {
	if err := c.printWaiting(found, missing); err != nil || !missing {
		return err
	}
	return errReported
}

func (c *cli) printWaiting(found []waiting, missing bool) error {
	if c.json {
		return c.printJSON(found)
	}
	if len(found) == 0 {
		if missing {
			return nil
		}
		return writeLine(c.stderr, "sojourn: nothing waits for a person")
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	_, bad := fmt.Fprintln(w, "SESSION\tTITLE\tWAITS FOR")
	for _, e := range found {
		_, err := fmt.Fprintf(w, "%s\t%s\t%s\n", e.SessionID, cmp.Or(render.Short(e.Title, maxTitle), "-"), oneLine(e.line()))
		bad = errors.Join(bad, err)
	}
	if err := errors.Join(bad, w.Flush()); err != nil {
		return err
	}
	return writeLine(c.stderr, "sojourn: sojourn respond SESSION REQUEST allow|deny answers; sojourn configure SESSION raises a limit")
}
