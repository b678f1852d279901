package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/adapters"
)

func (c *cli) agentsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "agents",
		Short: "List the agents, what each can do, and whether it is installed here",
		Long: `List the agents, what each can do, and whether its program is on this machine; the workers' hosts may differ.
With --json it also prints where an agent keeps its transcripts and what its limits are.`,
		Args: wants,
		RunE: func(*cobra.Command, []string) error { return c.listAgents() },
	}
}

// agentReport is an agent as it is on this machine.
type agentReport struct {
	adapters.Info
	// Program is where it was found, Missing why it was not.
	Program string `json:"program,omitempty"`
	Missing string `json:"missing,omitempty"`
}

func (c *cli) listAgents() error {
	all, err := c.allAgents()
	if err != nil {
		return err
	}
	reports := make([]agentReport, len(all))
	for i, a := range all {
		reports[i].Info = a.Info()
		if reports[i].Program, err = a.Locate(c.env.Get); err != nil {
			reports[i].Missing = err.Error()
		}
	}
	if c.json {
		return c.printJSON(reports)
	}
	for _, r := range reports {
		_, err := fmt.Fprintf(c.stdout, "%-10s %s: %s\n", r.Name, r.Product, oneLine(cmp.Or(r.Program, r.Missing)))
		if err == nil {
			err = writeAbilities(c.stdout, 11, r.Capabilities)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// allAgents gives the adapters by their names' order.
func (c *cli) allAgents() ([]adapters.Adapter, error) {
	var all []adapters.Adapter
	for _, name := range c.agents.Names() {
		a, err := c.agents.Get(name)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// writeAbilities says in lines of their own what an agent can do and what not.
func writeAbilities(w io.Writer, indent int, c adapters.Capabilities) error {
	can, cannot := c.Split()
	for _, line := range []struct {
		word  string
		names []string
	}{{"can", can}, {"can not", cannot}} {
		if len(line.names) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(w, "%*s%s: %s\n", indent, "", line.word, strings.Join(line.names, ", ")); err != nil {
			return err
		}
	}
	return nil
}
