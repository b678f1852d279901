package starter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/starter/internal/render"
)

// hostsTimeout bounds the query of the hosts' agents. A host has 10 s to take the question
// and 30 s to answer it: each program is asked for its version, which takes seconds on a
// busy host.
const hostsTimeout = 50 * time.Second

func (c *cli) agentsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "agents",
		Short: "List the agents, what each can do, and which hosts have it",
		Long: `List the agents, what each can do, and which hosts have its program, as their workers report.
With --json it also prints where an agent keeps its transcripts and what its limits are.`,
		Args: wants,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.listAgents(cmd.Context()) },
	}
}

// agentReport is an agent and what the hosts report about it.
type agentReport struct {
	adapters.Info
	Hosts []agentOnHost `json:"hosts"`
}

type agentOnHost struct {
	Host string `json:"host"`
	session.HostsAgent
}

func (c *cli) listAgents(ctx context.Context) error {
	all, err := c.allAgents()
	if err != nil {
		return err
	}
	hosts, unknown := c.hosts(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	reports := make([]agentReport, len(all))
	for i, a := range all {
		reports[i] = agentReport{Info: a.Info(), Hosts: agentIn(a.Info().Name, hosts)}
	}
	if unknown != nil {
		why := explain(unknown)
		c.warn("it is not known which hosts have the agents: %s; %s", why.line, why.hint)
	}
	if c.json {
		return c.printJSON(reports)
	}
	for _, r := range reports {
		if err := c.printAgent(r, hosts); err != nil {
			return err
		}
	}
	return nil
}

// printAgent prints an agent; if no hosts were queried, only its capabilities.
func (c *cli) printAgent(r agentReport, hosts []session.HostReport) error {
	line := fmt.Sprintf("%-10s %s", r.Name, r.Product)
	if len(hosts) > 0 {
		where, err := onHosts(r.Name, hosts)
		if err != nil {
			where = explain(err).line
		}
		line += ": " + where
	}
	// Cleaned but not joined to one line: the columns are kept.
	if err := writeLine(c.stdout, render.Clean(line)); err != nil {
		return err
	}
	return writeAbilities(c.stdout, 11, r.Capabilities)
}

// hosts queries the workers for their hosts' agents. It is an error if no worker
// answers, since then nothing is known.
func (c *cli) hosts(ctx context.Context) ([]session.HostReport, error) {
	ctx, cancel := context.WithTimeout(ctx, hostsTimeout)
	defer cancel()
	t, err := c.temporal(ctx)
	if err != nil {
		return nil, err
	}
	reports, err := session.Hosts(ctx, t)
	if err == nil && len(reports) == 0 || errors.Is(err, context.DeadlineExceeded) {
		err = failed("start sojourn-worker with the same settings", "no worker answers")
	}
	return reports, err
}

// agentIn returns what each host reports about one agent.
func agentIn(name string, hosts []session.HostReport) []agentOnHost {
	found := []agentOnHost{}
	for _, h := range hosts {
		for _, a := range h.Agents {
			if a.Agent == name {
				found = append(found, agentOnHost{h.Host, a})
			}
		}
	}
	return found
}

// onHosts describes where an agent is. It is an error if no host has it.
func onHosts(name string, hosts []session.HostReport) (string, error) {
	var has, lacks []string
	for _, on := range agentIn(name, hosts) {
		if on.Missing == "" {
			has = append(has, fmt.Sprintf("%s on host %s, %s", on.Version, on.Host, on.Program))
		} else {
			lacks = append(lacks, fmt.Sprintf("not on host %s: %s", on.Host, on.Missing))
		}
	}
	for _, h := range hosts {
		if h.Error != "" {
			lacks = append(lacks, fmt.Sprintf("host %s: %s", h.Host, h.Error))
		}
	}
	if len(has) == 0 {
		return "", failed("only sessions with this agent need it", "%s", strings.Join(lacks, "; "))
	}
	return strings.Join(append(has, lacks...), "; "), nil
}

// allAgents returns the adapters, ordered by name.
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

// writeAbilities writes on separate lines what an agent can do and what it can't.
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
