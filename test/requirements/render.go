package requirements

import (
	"fmt"
	"path"
	"strings"
)

const preface = `# Requirements

What Sojourn is to do, row by row, and what holds of it. Written by ` + "`go generate ./test/requirements`" + ` from
[rows.json](../test/requirements/rows.json) and the tests' names; ` + "`make check`" + ` fails when it is stale, when a row that is done has no test, and when a row's test asserts nothing.

The rows come from the documents of earlier systems, which the numbers 000 to 004 in a sentence stand for; where two of them differ the sentence says so. ` + "`ref`" + ` is what
their own code does where it differs, often a fault to avoid. Their callbacks, components and in-memory maps are Go's and Temporal's here; what a user sees is kept.

Status: **done** – the sentence holds and a test asserts it; **part** – some of it holds, or its test asserts less; **open**; **by decision** – otherwise, and the decision says why.

`

// Render returns the document.
func Render(rows []Row, tests []Test) string {
	var b strings.Builder
	b.WriteString(preface)
	b.WriteString(counts(rows))
	group := ""
	for _, r := range rows {
		if r.Group != group {
			group = r.Group
			fmt.Fprintf(&b, "\n## %s\n\n| # | Capability | Exact semantics | Status | Tests |\n| --- | --- | --- | --- | --- |\n", group)
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s |\n", r.Number, cell(r.Name), cell(r.Text), cell(statusOf(r)), testsIn(tests, r.Number))
	}
	return b.String()
}

func counts(rows []Row) string {
	n := map[Status]int{}
	for _, r := range rows {
		n[r.Status]++
	}
	return fmt.Sprintf("%d rows: %d done, %d in part, %d open, %d by decision.\n", len(rows), n[Done], n[Part], n[Open], n[Decided])
}

func statusOf(r Row) string {
	switch {
	case r.Status == Decided:
		return fmt.Sprintf("by decision [%.4s](decisions/%s.md)", r.Decision, r.Decision)
	case r.Missing != "":
		return fmt.Sprintf("%s: %s", r.Status, r.Missing)
	default:
		return string(r.Status)
	}
}

func testsIn(tests []Test, row int) string {
	var links []string
	for _, t := range tests {
		if t.Row == row {
			links = append(links, fmt.Sprintf("[`%s`](%s)", t.Name, path.Join("..", t.File)))
		}
	}
	return strings.Join(links, "<br>")
}

// cell keeps a text from ending its cell.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
