package starter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/starter/internal/render"
)

func (c *cli) queueCommand() *cobra.Command {
	queue := &cobra.Command{
		Use:     "queue COMMAND",
		Short:   "List, change, move and cancel the messages that wait in a session",
		Example: "  sojourn queue ls $ID\n  sojourn queue edit $ID $MESSAGE \"Run the tests, then stop\"\n  sojourn queue move $ID $MESSAGE 1",
		Args:    unknownCommand,
		RunE:    noCommand,
	}
	queue.AddCommand(
		&cobra.Command{
			Use: "ls ID", Short: "List what waits, the next one first", Args: wants,
			RunE: func(cmd *cobra.Command, args []string) error { return c.queueList(cmd.Context(), args[0]) },
		},
		c.queueEditCommand(),
		&cobra.Command{
			Use: "move ID MESSAGE PLACE", Short: "Let a message run at another place; 1 is the next one", Args: wants,
			RunE: func(cmd *cobra.Command, args []string) error {
				place, err := strconv.Atoi(args[2])
				if err != nil || place < 1 {
					return usage("PLACE wants a whole number from 1, the next one", "PLACE: %q is none", args[2])
				}
				place--
				return c.editQueue(cmd.Context(), args[0], "is moved", session.QueueEdit{MessageID: args[1], Place: &place})
			},
		},
		c.queueCancelCommand(),
	)
	return queue
}

func (c *cli) queueEditCommand() *cobra.Command {
	var attach []string
	cmd := &cobra.Command{
		Use: "edit ID MESSAGE TEXT|-", Short: "Let a message say something else; with - the text comes from standard input", Args: wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := c.message(args[2], sendFlags{attach: attach})
			if err != nil {
				return err
			}
			return c.editQueue(cmd.Context(), args[0], "is changed", session.QueueEdit{MessageID: args[1], Message: &m})
		},
	}
	cmd.Flags().StringArrayVar(&attach, "attach", nil, "with the image in `FILE` (repeatable); the images it had are left out")
	return cmd
}

func (c *cli) queueCancelCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "cancel ID MESSAGE", Short: "Take a message out; no agent is asked it", Args: wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.editQueue(cmd.Context(), args[0], "is cancelled", session.QueueEdit{MessageID: args[1], Cancel: true, Reason: reason})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "say why, as `TEXT`; it is kept in the conversation")
	return cmd
}

func (c *cli) editQueue(ctx context.Context, id, what string, e session.QueueEdit) error {
	return c.request(ctx, id, func(ctx context.Context, h *session.Handle) error {
		snapshot, err := h.EditQueue(ctx, e)
		if err != nil {
			return err
		}
		return c.done(h.ID(), fmt.Sprintf("message %s %s; %d wait", e.MessageID, what, len(snapshot.Queued)), snapshot)
	})
}

func (c *cli) queueList(ctx context.Context, id string) error {
	return c.request(ctx, id, func(ctx context.Context, h *session.Handle) error {
		snapshot, err := h.Snapshot(ctx)
		if err != nil {
			return err
		}
		if c.json {
			return c.printJSON(snapshot.Queued)
		}
		if len(snapshot.Queued) == 0 {
			_, err := fmt.Fprintf(c.stderr, "sojourn: no message waits in session %s\n", h.ID())
			return err
		}
		w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
		_, err = fmt.Fprintln(w, "PLACE\tMESSAGE\tTEXT")
		for i, m := range snapshot.Queued {
			_, bad := fmt.Fprintf(w, "%d\t%s\t%s\n", i+1, m.ID, render.Short(m.Text, maxTitle))
			err = errors.Join(err, bad)
		}
		return errors.Join(err, w.Flush())
	})
}
