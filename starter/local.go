package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// agentFlag is required where there is no session that knows its agent.
func (c *cli) agentFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "agent", "", "the agent's `NAME`, such as claude")
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

func (c *cli) parse(agent string, paths []string) error {
	a, err := c.agent(agent)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			return usage("give a transcript file, or the folder that is the agent's home", "%s", plainPathError(err))
		}
	}
	sources, err := adapters.SourcesFrom(a, paths...)
	if err != nil {
		return badPaths(err)
	}
	var b reducer.Builder
	faults := c.faults()
	for e, err := range a.Parse(sources) {
		if err != nil {
			faults.add(place(err))
			continue
		}
		b.Add(e)
	}
	return errors.Join(c.printJSON(b.State()), faults.err())
}

// badPaths is about transcripts that are not given as they must be.
func badPaths(err error) error {
	switch {
	case errors.Is(err, adapters.ErrManySessions):
		return usage("give the transcript file of one session", "%s", err)
	case errors.Is(err, fs.ErrNotExist):
		return usage("give a transcript file, or the folder that is the agent's home", "%s", plainPathError(err))
	}
	return err
}

// faults prints what is broken in the input, one line each, while the good
// part goes on.
type faults struct {
	c     *cli
	count int
}

func (c *cli) faults() *faults { return &faults{c: c} }

func (f *faults) add(err error) {
	f.count++
	fmt.Fprintf(f.c.stderr, "sojourn: %s\n", oneLine(err.Error()))
}

// err is the failure of the command, or nil when nothing was broken.
func (f *faults) err() error {
	if f.count == 0 {
		return nil
	}
	fmt.Fprintf(f.c.stderr, "sojourn: hint: what could be read is on standard output\n")
	return errReported
}

func (c *cli) translateCommand() *cobra.Command {
	var agent, prompt, side string
	cmd := &cobra.Command{
		Use:   "translate",
		Short: "Turn an agent's live output on standard input into events",
		Long: `Read records ({"ts","dir","line"}, a recording's {"ms","dir","line"}) or an agent's plain
output lines from standard input, and print events as JSON lines.`,
		Example: "  sojourn translate --agent claude < timed.jsonl | sojourn reduce",
		Args:    wants,
		RunE:    func(*cobra.Command, []string) error { return c.translate(agent, prompt, side) },
	}
	c.agentFlag(cmd, &agent)
	cmd.Flags().StringVar(&prompt, "prompt", "", "what was asked on the agent's command line, as `TEXT`")
	cmd.Flags().StringVar(&side, "side", "", "take subagents that the agent does not tell live from transcripts in `DIR`")
	return cmd
}

func (c *cli) translate(agent, prompt, side string) error {
	a, err := c.agent(agent)
	if err != nil {
		return err
	}
	o := adapters.TranslateOptions{Prompt: prompt}
	if side != "" {
		if o.Side, err = adapters.SourcesFrom(a, side); err != nil {
			return badPaths(err)
		}
	}
	enc := event.NewEncoder(c.stdout)
	faults := c.faults()
	records := event.DecodeRecords(c.stdin, event.RecordOptions{Plain: true})
	for e, err := range adapters.Translate(a, records, o) {
		if err != nil {
			faults.add(onStdin(err))
			continue
		}
		if err := enc.Encode(e); err != nil {
			return err
		}
	}
	return faults.err()
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
	faults := c.faults()
	for e, err := range event.Decode(c.stdin) {
		if err != nil {
			faults.add(onStdin(err))
			continue
		}
		b.Add(e)
	}
	return errors.Join(c.printJSON(b.State()), faults.err())
}

// onStdin names standard input as the file of a broken line.
func onStdin(err error) error {
	if at, ok := strings.CutPrefix(err.Error(), "line "); ok {
		return errors.New("stdin:" + at)
	}
	return err
}

// inTranscript is how adapters name a place in a transcript.
var inTranscript = regexp.MustCompile(`^\w+: transcript (.+): line (\d+): `)

// place puts an adapter's error into the form that editors can follow.
func place(err error) error {
	if at := inTranscript.FindStringSubmatch(err.Error()); at != nil {
		return fmt.Errorf("%s:%s: %s", at[1], at[2], err.Error()[len(at[0]):])
	}
	return err
}
