package starter

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/session"
)

func (c *cli) forkCommand() *cobra.Command {
	var f session.Fork
	var given func(string) bool
	cmd := &cobra.Command{
		Use:   "fork ID",
		Short: "Create a session that begins with another one's conversation",
		Long: `Create a session that begins with the conversation of another one, open or closed, whole or up to a block, and print its id. Its
agent remembers the conversation, and has the files as they were archived last. The other session does not change.`,
		Example: "  sojourn fork $ID\n  sojourn fork $ID --at \"$(sojourn show $ID --json | jq -r '.state.blocks[3].id')\"",
		Args:    wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := givenID(given, f.ID); err != nil {
				return err
			}
			return c.fork(cmd.Context(), args[0], f)
		},
	}
	given = cmd.Flags().Changed
	cmd.Flags().StringVar(&f.ID, "id", "", "the new session's `ID` (default: a new UUID)")
	cmd.Flags().StringVar(&f.At, "at", "", "the last `BLOCK` that it has, or the id of a message (default: all)")
	return cmd
}

func (c *cli) fork(ctx context.Context, id string, f session.Fork) error {
	sc, err := c.client(ctx, needTemporal|needStream|needArchiveNow)
	if err != nil {
		return err
	}
	stop := c.patience("still copying what is archived of session %s", id)
	defer stop()
	h, err := sc.Fork(ctx, id, f)
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(struct {
			SessionID string `json:"sessionId"`
			Parent    string `json:"parentSessionId"`
			At        string `json:"forkPointMessageId,omitempty"`
		}{h.ID(), id, f.At})
	}
	return writeLine(c.stdout, h.ID())
}

func (c *cli) mergeCommand() *cobra.Command {
	var id string
	var given func(string) bool
	cmd := &cobra.Command{
		Use:   "merge ID ID…",
		Short: "Create a session from several",
		Long: `Create a session that has the conversations of several, open or closed, and print its id. Their turns are in the order in which
they began, and a message that several have is there once. The first session gives agent, options and files; its agent
remembers that one, and is given what was said in the others. The sessions themselves do not change.`,
		Example: "  sojourn merge $A $B",
		Args:    wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := givenID(given, id); err != nil {
				return err
			}
			return c.merge(cmd.Context(), args, id)
		},
	}
	given = cmd.Flags().Changed
	cmd.Flags().StringVar(&id, "id", "", "the new session's `ID` (default: a new UUID)")
	return cmd
}

func (c *cli) merge(ctx context.Context, ids []string, id string) error {
	sc, err := c.client(ctx, needTemporal|needStream|needArchiveNow)
	if err != nil {
		return err
	}
	stop := c.patience("still copying what is archived of %d sessions", len(ids))
	defer stop()
	h, err := sc.Merge(ctx, ids, id)
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(struct {
			SessionID string   `json:"sessionId"`
			Merged    []string `json:"mergedSessionIds"`
		}{h.ID(), ids})
	}
	return writeLine(c.stdout, h.ID())
}
