package starter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"github.com/sojourn-run/sojourn/schedules"
	"github.com/sojourn-run/sojourn/starter/internal/render"
)

func (c *cli) scheduleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedule COMMAND",
		Short: "Have jobs, or messages to one session, begin at times",
		Example: "  sojourn schedule create nightly --cron \"0 3 * * *\" --zone Europe/Berlin --agent claude \"Update the dependencies and run the tests\"\n" +
			"  sojourn schedule create standup --every 24h --session $ID --agent claude \"What changed since yesterday?\"\n  sojourn schedule ls",
		Args: unknownCommand,
		RunE: noCommand,
	}
	cmd.AddCommand(c.scheduleCreateCommand(), c.scheduleListCommand(), c.schedulePauseCommand())
	for _, one := range []struct {
		use, short, done string
		do               func(context.Context, client.Client, string) error
	}{
		{"resume SCHEDULE", "Let a paused schedule start again", "goes on", schedules.Resume},
		{"trigger SCHEDULE", "Start once now, whatever is at work", "has started one", schedules.Trigger},
		{"delete SCHEDULE", "Remove a schedule; what it has started goes on", "is deleted", schedules.Delete},
	} {
		cmd.AddCommand(&cobra.Command{
			Use: one.use, Short: one.short, Args: wants,
			RunE: func(cmd *cobra.Command, args []string) error {
				return c.onSchedule(cmd.Context(), args[0], one.done, one.do)
			},
		})
	}
	return cmd
}

// onSchedule does something with a schedule, and prints that it is done.
func (c *cli) onSchedule(ctx context.Context, id, done string, do func(context.Context, client.Client, string) error) error {
	t, err := c.temporal(ctx)
	if err != nil {
		return err
	}
	if err := inWordsOf("schedule", id, "sojourn schedule ls lists the schedules", do(ctx, t, id)); err != nil {
		return err
	}
	if c.json {
		return c.printJSON(map[string]string{"scheduleId": id})
	}
	return writeLine(c.stdout, "schedule "+id+" "+done)
}

// scheduleFlags are the flags of a schedule beside those of its sessions.
type scheduleFlags struct {
	optionFlags
	jobFlags
	schedules.Spec

	session string
}

func (c *cli) scheduleCreateCommand() *cobra.Command {
	var f scheduleFlags
	cmd := &cobra.Command{
		Use: "create SCHEDULE TEXT", Short: "Ask an agent TEXT at times: in a session of its own each time, or with --session in one", Args: wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, ofJobs := range []string{"schema", "repairs", "file", "artifact", "check", "check-timeout"} {
				if f.session != "" && cmd.Flags().Changed(ofJobs) {
					return usage("leave it out, or --session", "--%s is of jobs, and --session has none", ofJobs)
				}
			}
			return c.createSchedule(cmd.Context(), args[0], args[1], &f)
		},
	}
	f.optionFlags.register(c, cmd)
	fl := cmd.Flags()
	f.jobFlags.register(cmd)
	fl.StringArrayVar(&f.Cron, "cron", nil, "start at the times of `EXPRESSION`, with five fields (repeatable)")
	fl.DurationVar(&f.Every, "every", 0, "start each `TIME`, such as 24h")
	fl.StringVar(&f.Zone, "zone", "", "the time `ZONE` of --cron, such as Europe/Berlin (default UTC)")
	fl.DurationVar(&f.Jitter, "jitter", 0, "delay each start by a random time up to `TIME`")
	fl.StringVar(&f.Overlap, "overlap", "skip", "when the last one is still at work: `RULE`, one of "+strings.Join(schedules.Overlaps(), ", "))
	fl.DurationVar(&f.CatchUp, "catch-up", 0, "start one that was missed at most `TIME` late (default: Temporal's, a year)")
	fl.BoolVar(&f.PauseOnFailure, "pause-on-failure", false, "pause the schedule when one fails")
	fl.StringVar(&f.session, "session", "", "send TEXT to the session `ID` each time; it is made, or reopened, where there is none")
	return cmd
}

func (c *cli) createSchedule(ctx context.Context, id, text string, f *scheduleFlags) error {
	job, err := c.jobInput(ctx, text, "", &f.optionFlags, &f.jobFlags)
	if err != nil {
		return err
	}
	f.Job = &job
	if f.session != "" {
		f.Job, f.Message = nil, &schedules.Message{SessionID: f.session, Options: job.Options, Prompt: text}
	}
	return c.onSchedule(ctx, id, "is there", func(ctx context.Context, t client.Client, id string) error {
		return schedules.Create(ctx, t, id, f.Spec)
	})
}

func (c *cli) schedulePauseCommand() *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use: "pause SCHEDULE", Short: "Start no more; what is at work goes on", Args: wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.onSchedule(cmd.Context(), args[0], "is paused", func(ctx context.Context, t client.Client, id string) error {
				return schedules.Pause(ctx, t, id, note)
			})
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "say why, as `TEXT`; lists show it")
	return cmd
}

func (c *cli) scheduleListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List the schedules", Args: wants,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := c.temporal(cmd.Context())
			if err != nil {
				return err
			}
			all, err := schedules.List(cmd.Context(), t)
			if err != nil {
				return err
			}
			if c.json {
				return c.printJSON(all)
			}
			w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
			_, err = fmt.Fprintln(w, "SCHEDULE\tSTARTS\tWHEN\tLAST\tNEXT\tNOTE")
			for _, s := range all {
				_, bad := fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, s.What, strings.Join(s.When, ", "), moment(s.Last, "never"), nextStart(s), render.Short(s.Note, maxTitle))
				err = errors.Join(err, bad)
			}
			return errors.Join(err, w.Flush())
		},
	}
}

func nextStart(s schedules.Entry) string {
	if s.Paused {
		return "paused"
	}
	return moment(s.Next, "none")
}

// moment returns a time in the local zone; none for the zero time.
func moment(t time.Time, none string) string {
	if t.IsZero() {
		return none
	}
	return t.Local().Format("2006-01-02 15:04:05")
}
