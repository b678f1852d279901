package starter

import (
	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/jsonl"
)

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
	cmd.Flags().StringVar(&side, "side", "", "take subagents that the agent does not stream from transcripts in `DIR`")
	return cmd
}

func (c *cli) translate(agent, prompt, side string) error {
	a, err := c.agent(agent)
	if err != nil {
		return err
	}
	t := &translation{c: c, faults: c.faults(), enc: jsonl.NewEncoder(c.stdout)}
	o := adapters.TranslateOptions{Prompt: prompt}
	if side != "" {
		if t.side, err = c.transcripts(a, []string{side}, t.faults); err != nil {
			return err
		}
		o.Side = t.side.sources
	}
	t.in = newLines(c.stdin, func(number int) error {
		t.faults.at("stdin", number, "%v", errGarbled)
		return nil
	})
	records := jsonl.DecodeRecords(t.in, jsonl.RecordOptions{Plain: true})
	for e, err := range adapters.Translate(a, records, o) {
		if err := t.take(e, err); err != nil {
			return err
		}
	}
	return t.end(a.Info().Product)
}

// translation is one run of translate.
type translation struct {
	c      *cli
	in     *lines
	side   *transcripts
	faults *faults
	heed   heed
	enc    *jsonl.Encoder
}

// codeMalformed is the code of the error event that translators make for a line
// that they can't read.
const codeMalformed = "malformed"

// take prints an event, and reports a line that could not be read.
func (t *translation) take(e event.Event, err error) error {
	if err != nil {
		if t.side != nil {
			err = place(err, t.side.sources)
		}
		t.faults.add(onStdin(err))
		return nil
	}
	if t.in.number > 0 { // the prompt precedes the first line
		t.heed.add(e)
	}
	if p, ok := e.Payload.(event.Error); ok && p.Code == codeMalformed {
		t.faults.at("stdin", t.in.number, "%s", p.Message)
	}
	return t.enc.Encode(e)
}

func (t *translation) end(product string) error {
	if t.heed.stranger() {
		// Not a failure: what is unknown is kept, and a recording without its input
		// side may have nothing else.
		t.c.warn("stdin:1: no line is known of %s; all are kept as they are", product)
	}
	if t.side != nil {
		t.side.changed(t.faults)
	}
	return t.faults.err()
}
