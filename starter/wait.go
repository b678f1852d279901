package starter

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/session"
)

func (c *cli) waitCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait ID [MESSAGE]",
		Short: "Wait until a session is idle, or until a message is answered",
		Long: `Wait until a session is idle and nothing waits in it; with MESSAGE, the id of a message or of its execution, until that
has ended, and print the answer as send does.`,
		Example: "  sojourn send $ID \"Run the tests\" --no-wait --message-id tests\n  sojourn wait $ID tests --timeout 10m",
		Args:    wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			return within(cmd.Context(), timeout, func(ctx context.Context) error {
				if len(args) == 1 {
					return c.waitIdle(ctx, args[0])
				}
				return c.waitEnd(ctx, args[0], args[1])
			})
		},
	}
	timeoutFlag(cmd, &timeout)
	return cmd
}

func (c *cli) waitIdle(ctx context.Context, id string) error {
	h, err := c.handle(ctx, id, needStream)
	if err != nil {
		return err
	}
	stop := c.sayPending(ctx, h, "the agent is at work; Ctrl-C leaves it so")
	s, err := h.AwaitIdle(ctx)
	stop()
	if err != nil {
		return leftAtWork(ctx, id, err)
	}
	return c.done(id, "is idle", s)
}

func (c *cli) waitEnd(ctx context.Context, id, of string) error {
	h, err := c.handle(ctx, id, needStream)
	if err != nil {
		return err
	}
	stop := c.sayPending(ctx, h, "the agent is at work; Ctrl-C leaves it so")
	res, err := h.AwaitEnd(ctx, of)
	stop()
	if err != nil {
		return leftAtWork(ctx, id, err)
	}
	return c.printEnd(id, res)
}

// leftAtWork returns the error of an ended wait for a session's work.
func leftAtWork(ctx context.Context, id string, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return leftAt(ctx, "sojourn wait "+id+" waits again", "; session %s goes on", id)
}

func (c *cli) resultCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "result ID [MESSAGE]",
		Short: "Print how the last turn ended, or a message's, without waiting",
		Long: fmt.Sprintf(`Print the answer of the last turn that has ended, or of the one of MESSAGE, the id of a message or of its execution, and report by the
exit code how it ended, as send does. A session knows its last %d turns; sojourn show ID has all of them.`, session.KeptResults),
		Args: wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			of := ""
			if len(args) == 2 {
				of = args[1]
			}
			return c.result(cmd.Context(), args[0], of)
		},
	}
}

func (c *cli) result(ctx context.Context, id, of string) error {
	var res session.Result
	if err := c.request(ctx, id, func(ctx context.Context, h *session.Handle) (err error) {
		res, err = h.Result(ctx, of)
		return err
	}); err != nil {
		return err
	}
	return c.printEnd(id, res)
}

// printEnd prints an answer and returns how its execution failed, if it did.
func (c *cli) printEnd(id string, res session.Result) error {
	if err := c.printResult(id, res); err != nil {
		return err
	}
	return turnFailed(id, res)
}
