package starter

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/jsonl"
	"github.com/sojourn-run/sojourn/reducer"
)

// agentFlag is required if there is no session whose agent is known.
func (c *cli) agentFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "agent", "", c.agentUsage())
}

func (c *cli) agent(name string) (adapters.Adapter, error) {
	a, err := c.agents.Get(name)
	switch {
	case err == nil:
		return a, nil
	case name == "":
		return nil, usage("--agent wants one of "+c.agentNames(), "--agent is missing")
	}
	return nil, usage("--agent wants one of "+c.agentNames(), "unknown agent %q", name)
}

func (c *cli) agentUsage() string { return "the agent's `NAME`: " + c.agentNames() }

func (c *cli) agentNames() string { return strings.Join(c.agents.Names(), ", ") }

func (c *cli) parseCommand() *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use:   "parse PATH…",
		Short: "Turn native transcripts into a conversation's state",
		Long: `Read an agent's own transcript files and print the conversation as JSON.
PATH is a transcript file, or a folder laid out like the agent's home.
What is broken is named on standard error by file and line; the rest is printed all the same.`,
		Example: "  sojourn parse --agent claude ~/.claude/projects/-srv-app/0e3e7c8c.jsonl",
		Args:    wants,
		RunE:    func(_ *cobra.Command, paths []string) error { return c.parse(agent, paths) },
	}
	c.agentFlag(cmd, &agent)
	return cmd
}

func (c *cli) reduceCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "reduce",
		Short:   "Fold events on standard input into a conversation's state",
		Long:    "Read events as JSON lines from standard input and print the conversation they make as JSON.",
		Example: "  sojourn tail ID --json | sojourn reduce",
		Args:    wants,
		RunE:    func(*cobra.Command, []string) error { return c.reduce() },
	}
}

func (c *cli) reduce() error {
	var b reducer.Builder
	known, unknown := 0, 0
	faults := c.faults()
	in := newLines(c.stdin, func(int) error { return errGarbled })
	for e, err := range jsonl.Decode(in) {
		if err != nil {
			faults.add(onStdin(err))
			continue
		}
		if _, is := e.Payload.(event.Unknown); is {
			unknown++
		} else {
			known++
		}
		b.Add(e)
	}
	if unknown > 0 && known == 0 {
		faults.at("stdin", 1, "not events: no type in it is known")
	}
	if err := c.printJSON(b.State()); err != nil {
		return err
	}
	return faults.err()
}
