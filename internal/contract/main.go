// Command contract writes docs/contract.md and docs/contract.schema.json: what a job takes
// and returns as JSON, with the meaning of each field from the comments of the Go types; or the
// types of a gateway's requests, answers and events for TypeScript.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/sojourn-run/sojourn/batch"
	"github.com/sojourn-run/sojourn/jobs"
	"github.com/sojourn-run/sojourn/schedules"
	"github.com/sojourn-run/sojourn/session"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "contract:", err)
		os.Exit(1)
	}
}

// run writes the files; its arguments are the repository's root and the folder for them, or the
// file in TypeScript.
func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: contract ROOT OUT")
	}
	if strings.HasSuffix(args[1], ".ts") {
		return writeTypeScript(args[0], args[1])
	}
	return writeContract(args[0], args[1])
}

func writeContract(root, out string) error {
	g := newGenerator(root)
	for _, t := range []reflect.Type{
		reflect.TypeFor[jobs.Input](), reflect.TypeFor[jobs.Result](),
		reflect.TypeFor[batch.Input](), reflect.TypeFor[batch.Item](), reflect.TypeFor[batch.Line](), reflect.TypeFor[batch.Report](), reflect.TypeFor[batch.Progress](), reflect.TypeFor[batch.Change](),
		reflect.TypeFor[schedules.Message](),
	} {
		if _, err := g.of(t); err != nil {
			return err
		}
	}
	whole := Schema{Dialect: "https://json-schema.org/draft/2020-12/schema", Title: "The contract of jobs", Defs: g.defs}
	text, err := json.MarshalIndent(whole, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "contract.schema.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	var doc strings.Builder
	doc.WriteString(introduction)
	for _, name := range g.order {
		writeTable(&doc, name, g.defs[name])
	}
	return os.WriteFile(filepath.Join(out, "contract.md"), []byte(doc.String()), 0o644)
}

// writeTable writes a type's fields.
func writeTable(doc *strings.Builder, name string, s *Schema) {
	fmt.Fprintf(doc, "\n### %s\n\n", name)
	if s.Description != "" {
		fmt.Fprintf(doc, "%s\n\n", s.Description)
	}
	doc.WriteString("| field | JSON | meaning |\n| --- | --- | --- |\n")
	for _, field := range s.order {
		p := s.Properties[field]
		fmt.Fprintf(doc, "| `%s` | %s | %s |\n", field, p.words(), strings.ReplaceAll(p.Description, "|", `\|`))
	}
}

const introduction = `<!-- Written by "go generate ./jobs" from the Go types. -->
# The contract of jobs

A job is a workflow that asks an agent once and returns a typed result. Any workflow, in any of Temporal's SDKs, starts it as a child by its name, and any client starts it directly:

| | |
| --- | --- |
| workflow type | ` + "`" + jobs.Type + "`" + ` |
| task queue | ` + "`sojourn`" + ` |
| input | one JSON object, [Input](#input) |
| result | one JSON object, [Result](#result) |

` + "```ts" + `
const result = await executeChild('AgentJob', {
  taskQueue: 'sojourn', workflowId: ` + "`totals-${month}`" + `,
  args: [{ options: { agent: 'claude' }, prompt: 'Add up report.csv', files: [{ path: 'report.csv', text: csv }],
           schema: { type: 'object', required: ['total'], properties: { total: { type: 'number' } } } }],
});
console.log(result.value.total, result.costUSD);
` + "```" + `

The job opens a session of its own, asks the agent, checks the answer against the schema, asks again if it does not match, closes the session, and returns. What the agent did is in the session, whose id is in the result:
` + "`sojourn show`, `sojourn files` and the Go client" + ` read it, also later. A job has no deadline of its own; an execution timeout of the workflow, or its cancellation, interrupts the agent and closes the session. Terminated, it leaves that to the
session, which is asked to close.

**From another namespace** a job is an operation of a [Nexus](https://docs.temporal.io/nexus) service, ` + "`" + jobs.NexusService + "`" + `, operation ` + "`" + jobs.NexusOperation + "`" + `, with the same input and result. The endpoint is an operator's to make:
` + "`temporal operator nexus endpoint create --name agents --target-namespace NAMESPACE --target-task-queue sojourn`" + `.

**Failures.** A job that fails has an application error; its type is the reason, and its first detail the Result so far:

| type | reason |
| --- | --- |
| ` + "`" + session.TypeInvalid + "`" + ` | the input: the message names the field, and what it may be |
| ` + "`" + jobs.TypeMismatch + "`" + ` | the answer does not match the schema, after all repairs; ` + "`mismatch`" + ` is the first difference |
| ` + "`" + jobs.TypeCheckFailed + "`" + ` | the check ended with another code than 0; the message has the end of what it wrote |
| ` + "`" + jobs.TypeUnchecked + "`" + ` | the check could not be run: the sandbox was gone |
| ` + "`" + jobs.TypeInterrupted + "`" + ` | the agent was interrupted |
| ` + "`" + jobs.TypeSessionEnded + "`" + ` | the session was closed or terminated before it had answered |
| ` + "`" + jobs.TypeTooLarge + "`" + ` | the value, or the list of artifacts, is over 256 KiB as JSON; the session's conversation and files in the archive have all of it |
| others | the code of the turn's failure: ` + "`" + session.TypeAgentFailed + "`, `" + session.TypeNoProgress + "`, `" + session.TypeLimit + "`, `" + session.TypeMaxTicks + "`" + `, or the agent's own |

A job that is cancelled ends as a cancelled workflow, with the Result so far as its first detail.

A job does not try again what failed: whatever may be repeated was repeated within it. Whether a whole job is worth another try is its parent's to say.

**Sizes.** Temporal takes at most 2 MiB in one payload, and refuses an input that is larger: files are text or base64, 1 MiB in all, and the schema 64 KiB. Of a result the response, the value and the list of artifacts have at most 256 KiB each, as JSON:
a longer response is its beginning, with ` + "`truncated`" + `; for the others see ` + "`" + jobs.TypeTooLarge + "`" + `. Answers, files and conversations of any size are in the archive, under the result's ` + "`sessionId`" + `.

## Batches and schedules

A batch is the workflow ` + "`" + batch.Type + "`" + ` ([BatchInput](#batchinput) in, [Report](#report) out). Its items are [lines](#item) in the archive, which ` + "`sojourn batch`" + ` and the package batch write, so it is started by one of these; any client may send it the signals ` + "`pause` and `resume`" + `, the update
` + "`configure`" + ` ([Change](#change) in, [Progress](#progress) out) and the query ` + "`progress`" + `. Each item has a [Line](#line) in the results. With ` + "`variants`" + ` ([Variant](#variant)) each line is
an item of each of them, and the report has a [VariantReport](#variantreport) for each: with a ` + "`check`" + ` in the job, or in the lines, that is an evaluation of agents and models.

A Temporal Schedule starts ` + "`" + jobs.Type + "`" + ` with an Input, or ` + "`" + schedules.MessageType + "`" + ` with a [Message](#message), which has one session take a message each time; ` + "`sojourn schedule`" + ` writes such schedules.

[contract.schema.json](contract.schema.json) has all types as a JSON schema.

## Types
`
