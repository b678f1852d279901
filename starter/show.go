package starter

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/older"
	"github.com/sojourn-run/sojourn/reducer/frame"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/starter/internal/render"
	"github.com/sojourn-run/sojourn/stream"
)

func (c *cli) tailCommand() *cobra.Command {
	var after uint64
	var follow, tree bool
	var names string
	cmd := &cobra.Command{
		Use:   "tail ID",
		Short: "Show a session's events; --json prints them as they are on the wire",
		Long: `Show a session's events from the stream. Nothing but the stream is asked.
With --tree the events of child sessions, and of theirs, come between their start and their end; --json adds the ids on the way down as spawnPath.
For clients of older systems --names v1 --json prints block events as block_start, text_delta, block_update, block_complete and
metadata_update, and --names v2 --json as session:block:start, session:block:delta, session:block:update and session:block:complete,
and with session:status, session:file:modified, session:created and sessions:changed. --names v3 --json prints executions, ticks,
messages, content, reasoning, tool calls and spawns, each as a start, its deltas, an end and the whole (content_start, …).`,
		Example: "  sojourn tail $ID --follow\n  sojourn tail $ID --json | sojourn reduce",
		Args:    wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			if tree {
				return c.tailTree(cmd, args[0], follow)
			}
			return c.tail(cmd.Context(), args[0], names, after, follow)
		},
	}
	cmd.Flags().Uint64Var(&after, "after", 0, "begin behind event `N`")
	cmd.Flags().BoolVar(&follow, "follow", false, "continue with new events, until the session is closed")
	cmd.Flags().BoolVar(&tree, "tree", false, "show the events of child sessions too, and of theirs")
	cmd.Flags().StringVar(&names, "names", "", "with --json, print block events under older names: `v1|v2|v3`")
	return cmd
}

func (c *cli) tail(ctx context.Context, id, names string, after uint64, follow bool) error {
	if err := session.ValidateID("id", id); err != nil {
		return err
	}
	show, flush, err := c.showerNamed(names)
	if err != nil {
		return err
	}
	needs, err := c.knownToStream(ctx, id, after)
	if err != nil {
		return err
	}
	sc, err := c.client(ctx, needs)
	if err != nil {
		return err
	}
	for e, err := range sc.Events(ctx, id, after, follow) {
		if err != nil {
			return joinFlush(err, flush)
		}
		if err := show(e); err != nil {
			return err
		}
	}
	return flush()
}

// showerNamed is shower with older names for the block events.
func (c *cli) showerNamed(names string) (show func(event.Event) error, flush func() error, err error) {
	plain, flush := c.shower()
	if names == "" {
		return plain, flush, nil
	}
	vocabulary, err := older.New(names)
	if err != nil {
		return nil, nil, usage("--names wants v1, v2 or v3", "--names: %q is unknown", names)
	}
	if !c.json {
		return nil, nil, usage("give --json too: people are shown no names", "--names %s goes with --json", names)
	}
	return func(e event.Event) error {
		events, err := vocabulary.Events(e)
		for _, e := range events {
			if err == nil {
				err = plain(e)
			}
		}
		return err
	}, flush, nil
}

// knownToStream distinguishes a session without events in the stream from one
// that does not exist, and compares the number to begin behind with the last
// event. It returns what a follower needs: of an old session the archive alone
// knows that no event will come.
func (c *cli) knownToStream(ctx context.Context, id string, after uint64) (need, error) {
	log, err := c.log(ctx)
	if err != nil {
		return 0, err
	}
	tail, err := log.Tail(ctx, id)
	switch {
	case err == nil:
		return needStream, behindLast(id, after, tail.LastSeq)
	case errors.Is(err, stream.ErrNotFound):
		_, err = c.handle(ctx, id, 0)
	}
	return needStream | needArchive, err
}

// behindLast refuses to begin behind an event that does not exist yet: the number
// must be from another session.
func behindLast(id string, after, last uint64) error {
	if after <= last {
		return nil
	}
	return failed(fmt.Sprintf("--after wants the number of an event that is there; with --after %d --follow comes what is new", last),
		"--after %d: the last event of session %s is %d", after, id, last)
}

func (c *cli) showCommand() *cobra.Command {
	var from string
	var how shown
	var whole bool
	var part session.Timeline
	var roles []string
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a whole conversation; no worker and no sandbox is needed",
		Long: `Show a whole conversation, with every tool's result and every subagent in its place.
With --json it prints the state, the same that "sojourn tail ID --json | sojourn reduce" prints.
--role, --max-tokens and --limit choose blocks of the main conversation, the newest first.`,
		Example: "  sojourn show $ID\n  sojourn show $ID --role user --role assistant --limit 20",
		Args:    wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, r := range roles {
				part.Roles = append(part.Roles, session.Role(r))
			}
			if err := part.Validate(); err != nil {
				return err
			}
			if whole && (how != shown{} || cmd.Flags().Changed("from")) {
				return usage("leave the other flag out: --whole prints all there is", "--whole does not go with --messages, --tree, --frames and --from")
			}
			if whole {
				return c.showWhole(cmd.Context(), args[0], part)
			}
			return c.show(cmd.Context(), args[0], session.From(from), part, how)
		},
	}
	cmd.Flags().StringArrayVar(&roles, "role", nil, "only blocks by `user|assistant|tool|system` (repeatable)")
	cmd.Flags().IntVar(&part.MaxTokens, "max-tokens", 0, "only the newest blocks that have about `N` tokens together")
	cmd.Flags().IntVar(&part.Limit, "limit", 0, "only the newest `N` blocks")
	cmd.Flags().IntVar(&c.maxEntries, "max-timeline-entries", 0, "hold only the newest `N` blocks of each conversation in memory")
	cmd.Flags().BoolVar(&how.tree, "tree", false, "show the conversations of child sessions, and of theirs, where they were started")
	cmd.Flags().BoolVar(&how.frames, "frames", false, "begin each subagent's thread with its prompt, as a user message, and mark its start and end")
	cmd.Flags().BoolVar(&how.messages, "messages", false, "print a JSON record: id, title, messages (id, role, content, timestamp, usage), createdAt, updatedAt, metadata")
	cmd.Flags().BoolVar(&whole, "whole", false, "print all there is as JSON: record, transcripts, files, conversation, open requests and, as describe does, its state")
	cmd.Flags().StringVar(&from, "from", string(session.FromAuto), "read from `auto|archive|stream`; auto is the stream for an open session")
	return cmd
}

// shown is how a conversation is shown.
type shown struct{ messages, tree, frames bool }

func (c *cli) show(ctx context.Context, id string, from session.From, part session.Timeline, how shown) error {
	switch from {
	case session.FromAuto, session.FromArchive, session.FromStream:
	default:
		return usage("--from wants auto, archive or stream", "--from: %q is unknown", from)
	}
	if err := session.ValidateID("id", id); err != nil {
		return err
	}
	conv, err := c.conversation(ctx, id, from, how.tree)
	if err != nil {
		return err
	}
	for _, fault := range conv.Faults {
		c.warn("%s", fault)
	}
	said := len(conv.State.Blocks) + len(conv.State.Subagents)
	if how.frames {
		conv.State = frame.State(conv.State)
	}
	conv.State.Blocks = part.Of(conv.State.Blocks)
	switch {
	case how.messages:
		return c.printJSON(conv.Record())
	case c.json:
		return c.printJSON(conv.State)
	}
	if said == 0 {
		c.warn("nothing was said in session %s yet", id)
	}
	return c.printConversation(conv)
}

// showWhole prints everything stored of a session, its conversation and its state.
func (c *cli) showWhole(ctx context.Context, id string, part session.Timeline) error {
	sc, err := c.client(ctx, needTemporal|needStream|needArchiveNow)
	if err != nil {
		return err
	}
	stop := c.patience("waiting for a worker to answer for session %s", id)
	data, err := sc.Runtime(ctx, id, part)
	stop()
	if err != nil {
		return err
	}
	return c.printJSON(data)
}

// printConversation prints the blocks, and then what the agent waits for.
func (c *cli) printConversation(conv session.Conversation) error {
	p := render.New(c.stdout, c.renderOptions(c.stdout))
	if err := p.State(conv.State); err != nil {
		return err
	}
	for _, ask := range conv.Asks {
		if err := p.Event(ask); err != nil {
			return err
		}
	}
	return p.Flush()
}

// conversation reads from what answers: an open session needs no archive, and a
// closed one no stream.
func (c *cli) conversation(ctx context.Context, id string, from session.From, tree bool) (session.Conversation, error) {
	n := needArchiveNow
	if from != session.FromArchive {
		switch _, err := c.log(ctx); {
		case err == nil:
			n |= needStream
		case from == session.FromStream || ctx.Err() != nil:
			return session.Conversation{}, err
		default:
			c.warn("%s; reading the archive", explain(err).line)
		}
	}
	sc, away := c.client(ctx, n)
	if away != nil && n&needStream != 0 && ctx.Err() == nil {
		var err error
		if sc, err = c.client(ctx, needStream); err != nil {
			return session.Conversation{}, err
		}
	} else if away != nil {
		return session.Conversation{}, away
	}
	show := sc.Show
	if tree {
		show = sc.ShowTree
	}
	conv, err := show(ctx, id, from)
	if errors.Is(err, session.ErrNoArchive) {
		err = away
	}
	return conv, err
}

// openCommand reopens what was closed.
func (c *cli) openCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "open ID",
		Short: "Reopen a closed session; an open one stays as it is",
		Args:  wants,
		RunE:  func(cmd *cobra.Command, args []string) error { return c.open(cmd.Context(), args[0]) },
	}
}

func (c *cli) open(ctx context.Context, id string) error {
	// Finding it first prevents Open from creating a session with that id.
	if _, err := c.handle(ctx, id, 0); err != nil {
		if errors.Is(err, archive.ErrNotFound) {
			return fmt.Errorf("session %s: %w", id, session.ErrNotFound)
		}
		return err
	}
	sc, err := c.client(ctx, needTemporal|needArchiveNow)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	h, err := sc.Open(ctx, id, session.Options{})
	if err != nil {
		return err
	}
	return c.done(h.ID(), "is open", struct {
		SessionID string `json:"sessionId"`
	}{h.ID()})
}

// done prints what became of a session.
func (c *cli) done(id, what string, value any) error {
	if c.json {
		return c.printJSON(value)
	}
	return writeLine(c.stdout, "session "+id+" "+what)
}
