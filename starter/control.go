package starter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/starter/internal/render"
)

// request sends a session a request, and prints if its worker is slow to answer.
func (c *cli) request(ctx context.Context, id string, ask func(context.Context, *session.Handle) error) error {
	h, err := c.handle(ctx, id, 0)
	if err != nil {
		return err
	}
	stop := c.patience("waiting for a worker to answer for session %s", id)
	defer stop()
	return ask(ctx, h)
}

func (c *cli) interruptCommand() *cobra.Command {
	var message, reason string
	var clearQueue bool
	cmd := &cobra.Command{
		Use:   "interrupt ID",
		Short: "Stop the running turn, and those of all children",
		Args:  wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.interrupt(cmd.Context(), args[0], message, session.InterruptRequest{Reason: reason, ClearQueue: clearQueue})
		},
	}
	cmd.Flags().StringVar(&message, "message", "", "continue with the message `TEXT`")
	cmd.Flags().StringVar(&reason, "reason", "", "say why, as `TEXT`; it is kept in the conversation")
	cmd.Flags().BoolVar(&clearQueue, "clear-queue", false, "also cancel the messages that wait")
	return cmd
}

func (c *cli) interrupt(ctx context.Context, id, message string, req session.InterruptRequest) error {
	if message != "" {
		m, err := c.message(message, sendFlags{})
		if err != nil {
			return err
		}
		req.Message = &m
	}
	return c.request(ctx, id, func(ctx context.Context, h *session.Handle) error {
		reply, err := h.Interrupt(ctx, req)
		switch {
		case err != nil && req.Message != nil:
			return unconfirmed(ctx, id, "message "+req.Message.ID, "sojourn queue ls "+id+" shows what waits", err)
		case err != nil:
			return err
		}
		what := "had no running turn"
		switch {
		case reply.Running:
			what = "is being interrupted"
		case reply.Receipt != nil:
			what += "; the message is queued and runs with the next one"
		}
		for _, m := range reply.Cancelled {
			what += fmt.Sprintf("\nmessage %s is cancelled: %s", m.ID, render.Short(m.Text, maxTitle))
		}
		return c.done(id, what, reply)
	})
}

func (c *cli) clearAbortCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "clear-abort ID",
		Short: "Take back the mark that an interrupt left",
		Args:  wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.request(cmd.Context(), args[0], func(ctx context.Context, h *session.Handle) error {
				if err := h.ClearAbort(ctx); err != nil {
					return err
				}
				return c.done(h.ID(), "is not aborted", struct {
					SessionID string `json:"sessionId"`
					IsAborted bool   `json:"isAborted"`
				}{h.ID(), false})
			})
		},
	}
}

func (c *cli) respondCommand() *cobra.Command {
	var message, by, input string
	cmd := &cobra.Command{
		Use:   "respond ID REQUEST allow|deny",
		Short: "Answer an agent that asks whether it may run a tool",
		Long:  "Answer an agent that asks whether it may run a tool. What is answered is shown first, whole, on standard error.",
		Args:  wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			req := session.RespondRequest{RequestID: args[1], Allow: args[2] == "allow", Message: message, By: by, Input: json.RawMessage(input)}
			return c.respond(cmd.Context(), args[0], args[2], req)
		},
	}
	cmd.Flags().StringVar(&message, "message", "", "passed to the agent with a denial, as `TEXT`")
	cmd.Flags().StringVar(&input, "input", "", "run the tool with the input `JSON` in place of its own, or answer a question with it")
	cmd.Flags().StringVar(&by, "by", "", "the `NAME` that the conversation shows for the answer (default \"user\")")
	return cmd
}

func (c *cli) respond(ctx context.Context, id, answer string, req session.RespondRequest) error {
	if answer != "allow" && answer != "deny" {
		return usage("usage: sojourn respond ID REQUEST allow|deny", "answer: %q is neither allow nor deny", answer)
	}
	if err := req.Validate(); err != nil {
		return err
	}
	if !c.json {
		c.showRequest(ctx, id, req.RequestID)
	}
	return c.request(ctx, id, func(ctx context.Context, h *session.Handle) error {
		if err := h.Respond(ctx, req); err != nil {
			return err
		}
		return c.done(id, "has the answer "+answer, req)
	})
}

// showRequest shows the request that is answered, on standard error. The answer
// does not wait for a stream that can't be read.
func (c *cli) showRequest(ctx context.Context, id, request string) {
	asks, err := c.asks(ctx, id)
	if err != nil {
		if ctx.Err() == nil {
			c.warn("request %s is not shown: %s", request, explain(err).line)
		}
		return
	}
	p := render.New(c.stderr, c.renderOptions(c.stderr))
	for _, ask := range asks {
		if ask.Payload.(event.PermissionRequested).RequestID == request {
			_ = p.Event(ask) // errors of standard error don't matter
		}
	}
	_ = p.Flush()
}

func (c *cli) closeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "close ID",
		Short: "Close a session and its children; the archive keeps the conversation",
		Args:  wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.close(cmd.Context(), args[0])
		},
	}
}

func (c *cli) deleteCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete ID",
		Short: "Delete a closed session for good: conversation, files, record and history",
		Args:  wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes {
				return usage("nothing brings it back: --yes deletes it, and sojourn export keeps a copy", "session %s is not deleted", args[0])
			}
			return c.delete(cmd.Context(), args[0])
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "delete it, without a question")
	return cmd
}

func (c *cli) delete(ctx context.Context, id string) error {
	sc, err := c.client(ctx, needTemporal|needStream|needArchiveNow)
	if err != nil {
		return err
	}
	slow := c.patience("deleting session %s", id)
	err = sc.Delete(ctx, id)
	slow()
	if err != nil {
		return err
	}
	return c.done(id, "is deleted", struct {
		SessionID string `json:"sessionId"`
		Deleted   bool   `json:"deleted"`
	}{id, true})
}

func (c *cli) evictCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "evict ID",
		Short: "End an idle session's agent and sandbox; the next message makes new ones",
		Args:  wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.request(cmd.Context(), args[0], func(ctx context.Context, h *session.Handle) error {
				if err := h.Evict(ctx); err != nil {
					return err
				}
				s, err := h.Snapshot(ctx)
				if err != nil {
					return err
				}
				return c.done(h.ID(), "has no sandbox now", s)
			})
		},
	}
}

// close returns when the agents have ended and everything is archived, so it
// waits for more than a worker.
func (c *cli) close(ctx context.Context, id string) error {
	h, err := c.handle(ctx, id, 0)
	if err != nil {
		return err
	}
	slow := c.patience("closing session %s: a worker ends its agents and archives the rest", id)
	pending := c.sayPending(ctx, h, "")
	err = h.Close(ctx)
	pending()
	slow()
	if err != nil {
		return err
	}
	return c.done(h.ID(), "is closed", struct {
		SessionID string         `json:"sessionId"`
		Status    session.Status `json:"status"`
	}{h.ID(), session.StatusClosed})
}

func (c *cli) configureCommand() *cobra.Command {
	var f optionFlags
	cmd := &cobra.Command{
		Use:     "configure ID",
		Short:   "Change title, model, permission and its rules, metadata, tags, idle timeout or limits",
		Long:    "Changes a session. Of a closed one title, metadata and tags can be changed: it is reopened with them.",
		Example: "  sojourn configure $ID --title \"Parser, again\" --meta priority=2 --idle-timeout 1h",
		Args:    wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			change, err := f.change(cmd.Flags().Changed)
			if err != nil {
				return err
			}
			return c.configure(cmd.Context(), args[0], change)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.title, "title", "", "the title in lists, as `TEXT`")
	fl.StringVar(&f.model, "model", "", "the agent's own `NAME` for the model")
	f.registerPermissions(cmd)
	fl.BoolVar(&f.noRules, "no-rules", false, "remove the session's own rules for permissions")
	fl.BoolVar(&f.noEffects, "no-effect-rules", false, "remove the session's own rules for calls whose effect is unknown")
	f.registerMetadata(cmd)
	return cmd
}

// change returns the change that the given flags request.
func (f *optionFlags) change(given func(string) bool) (session.Configure, error) {
	var change session.Configure
	if given("title") {
		change.Title = &f.title
	}
	if given("model") {
		change.Model = &f.model
	}
	f.changePermissions(&change, given)
	if given("tag") {
		change.Tags = f.tags
	}
	if given("idle-timeout") {
		ms := int64(f.idle / time.Millisecond)
		change.IdleTimeoutMS = &ms
	}
	change.Limits = f.limitChange(given)
	if given("max-ticks") {
		change.MaxTicks = &f.maxTicks
	}
	var err error
	if change.Metadata, err = metadata(f.meta); err != nil {
		return change, err
	}
	if change.Empty() {
		return change, usage("sojourn configure --help shows what can be changed", "nothing to change is given")
	}
	return change, change.Validate()
}

// changePermissions adds how permission requests and losses are to be answered.
func (f *optionFlags) changePermissions(change *session.Configure, given func(string) bool) {
	if given("permission") {
		p := adapters.Permission(f.permission)
		change.Permission = &p
	}
	if given("allow") || given("ask") || given("deny") || f.noRules {
		change.Permissions = &f.rules
	}
	if given("unknown-effect") || f.noEffects {
		change.UnknownEffects = &f.effects
	}
	if given("permission-deadline") {
		change.PermissionDeadline = &permission.Deadline{AfterMS: f.deadline.Milliseconds()}
	}
	if given("park") {
		change.Park = &f.park
	}
}

// limitChange returns the change of limits that the given flags request; nil for
// none.
func (f *optionFlags) limitChange(given func(string) bool) *limits.Change {
	var change limits.Change
	if given("max-cost") {
		change.CostUSD = &f.limits.CostUSD
	}
	if given("max-tokens") {
		change.Tokens = &f.limits.Tokens
	}
	if given("max-calls") {
		change.ModelCalls = &f.limits.ModelCalls
	}
	if given("max-turns") {
		change.Turns = &f.limits.Turns
	}
	if given("max-work") {
		ms := f.work.Milliseconds()
		change.WorkMS = &ms
	}
	if change == (limits.Change{}) {
		return nil
	}
	return &change
}

func (c *cli) configure(ctx context.Context, id string, change session.Configure) error {
	var snapshot session.Snapshot
	err := c.request(ctx, id, func(ctx context.Context, h *session.Handle) (err error) {
		snapshot, err = h.Configure(ctx, change)
		return err
	})
	if a, rest := amendment(change); errors.Is(err, session.ErrClosed) && rest.Empty() {
		snapshot, err = c.amend(ctx, id, a)
	}
	if err != nil {
		return err
	}
	return c.done(id, "is configured", snapshot)
}

// amendment separates what can be changed of a closed session from the rest.
func amendment(change session.Configure) (a session.Amendment, rest session.Configure) {
	a = session.Amendment{Title: change.Title, Metadata: change.Metadata, Tags: change.Tags}
	change.Title, change.Metadata, change.Tags = nil, nil, nil
	return a, change
}

// amend changes a closed session.
func (c *cli) amend(ctx context.Context, id string, a session.Amendment) (session.Snapshot, error) {
	sc, err := c.client(ctx, needTemporal|needStream|needArchiveNow)
	if err != nil {
		return session.Snapshot{}, err
	}
	stop := c.patience("waiting for session %s to close", id)
	defer stop()
	return sc.Amend(ctx, id, a)
}

func (c *cli) spawnCommand() *cobra.Command {
	var f optionFlags
	var id, description, sandbox string
	cmd := &cobra.Command{
		Use:     "spawn ID TEXT|-",
		Short:   "Start a child session with a first message and print its id",
		Long:    "Starts a child session with a first message and prints its id. The child inherits permission, its rules and deadline, rules for unknown effects, park time, --max-ticks and tenant, unless given.",
		Example: "  sojourn spawn $ID --agent claude \"Review the diff\"",
		Args:    wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.spawn(cmd.Context(), args[0], args[1], session.SpawnRequest{ID: id, Description: description, Options: session.Options{Sandbox: sandbox}}, &f)
		},
	}
	f.register(c, cmd)
	cmd.Flags().StringVar(&id, "id", "", "the child's `ID` (default: a new UUID)")
	cmd.Flags().StringVar(&description, "description", "", "what the child is for, in a few words of `TEXT`")
	cmd.Flags().StringVar(&sandbox, "sandbox", "", "`WHERE` the child works: own, or parent: in the files of ID's sandbox, beside ID's agent (default: as ID itself)")
	return cmd
}

func (c *cli) spawn(ctx context.Context, parent, text string, req session.SpawnRequest, f *optionFlags) error {
	m, err := c.message(text, sendFlags{})
	if err != nil {
		return err
	}
	o, err := c.options(ctx, req.ID, f)
	if err != nil {
		return err
	}
	o.Sandbox = req.Options.Sandbox
	req.ID, req.Options, req.Message = cmp.Or(req.ID, uuid.NewString()), o, m
	return c.request(ctx, parent, func(ctx context.Context, h *session.Handle) error {
		reply, err := h.Spawn(ctx, req)
		if err != nil {
			again := fmt.Sprintf("ask again with the same text: sojourn spawn %s TEXT --id %s (one id never runs twice)", parent, req.ID)
			return unconfirmed(ctx, parent, "child "+req.ID, again, err)
		}
		if c.json {
			return c.printJSON(reply)
		}
		return writeLine(c.stdout, reply.ChildID)
	})
}
