package starter

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
)

//go:generate sh -c "go run ../cmd/sojourn reference agents > ../docs/agents.md"

const agentsHead = `# The agents

Generated from the adapters by ` + "`go generate ./starter`; `make check` holds it against them." + `

An agent is chosen by its name: ` + "`sojourn new --agent NAME`" + `. Events, blocks, archive and resume are the same for all; what differs is
below. ` + "`sojourn agents`" + ` prints it with the hosts that have each agent, and ` + "`sojourn doctor`" + ` does too.

An agent's process sees of the worker's environment only the variables that ` + "`SOJOURN_PASS_ENV`" + ` names, such as the model's key and address.

`

// writeAgents prints docs/agents.md. It uses only the adapters and nothing of
// this machine.
func writeAgents(w io.Writer, agents []adapters.Adapter) error {
	var b strings.Builder
	b.WriteString(agentsHead)
	writeCapabilities(&b, agents)
	for _, a := range agents {
		writeAgent(&b, a)
	}
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

func writeCapabilities(b *strings.Builder, agents []adapters.Adapter) {
	b.WriteString("## What they can do\n\n| capability |")
	for _, a := range agents {
		fmt.Fprintf(b, " %s |", a.Info().Name)
	}
	b.WriteString(" what it means |\n| --- |" + strings.Repeat(" :-: |", len(agents)) + " --- |\n")
	for _, ability := range adapters.AllCapabilities() {
		fmt.Fprintf(b, "| %s |", ability.Name)
		for _, a := range agents {
			fmt.Fprintf(b, " %s |", yes(ability.In(a.Info().Capabilities)))
		}
		fmt.Fprintf(b, " %s |\n", ability.Meaning)
	}
	b.WriteString("\n")
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "–"
}

func writeAgent(b *strings.Builder, a adapters.Adapter) {
	info := a.Info()
	fmt.Fprintf(b, "## `%s`: %s\n\n- **Process**: %s.\n- **Transcripts**: %s.\n", info.Name, info.Product, sentence(info.Mode), sentence(info.Files))
	if found := findsProgram(a); found != "" {
		fmt.Fprintf(b, "- **Program**: %s.\n", found)
	}
	if len(info.Variables) > 0 {
		b.WriteString("- **Environment**:\n")
		for _, v := range info.Variables {
			fmt.Fprintf(b, "  - `%s`: %s.\n", v.Name, sentence(v.About))
		}
	}
	if len(info.Limits) > 0 {
		b.WriteString("- **Limits**:\n")
		for _, limit := range info.Limits {
			fmt.Fprintf(b, "  - %s.\n", sentence(limit))
		}
	}
	b.WriteString("\n")
}

// sentence returns a sentence without its full stop, for text that follows.
func sentence(s string) string { return strings.TrimRight(strings.TrimSpace(s), ".") }

// findsProgram describes how an adapter finds its agent's program: it calls
// Locate with an empty environment, and records what it looks for.
func findsProgram(a adapters.Adapter) string {
	var asked []string
	_, err := a.Locate(func(name string) string {
		if code := "`" + name + "`"; !slices.Contains(asked, code) {
			asked = append(asked, code)
		}
		return ""
	})
	var says []string
	if len(asked) > 0 {
		says = append(says, "looked for by "+strings.Join(asked, ", then "))
	}
	if err != nil {
		says = append(says, "when it is missing: "+sentence(strings.TrimPrefix(err.Error(), adapters.ErrNotInstalled.Error()+": ")))
	}
	return strings.Join(says, "; ")
}
