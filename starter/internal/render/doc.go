// Package render shows a conversation to a person: live from its events, or
// whole from its state, in the same form.
//
//	p := render.New(os.Stdout, render.Options{Color: true, Width: 80, Rewrite: true})
//	for ev, err := range events {
//		p.Event(ev)
//	}
//	err := p.Flush()
//
// What it looks like, without colours:
//
//	› Look into the parser, please
//
//	∴ The tests first.
//
//	I'll run the tests.
//
//	● Bash  go test ./parser
//	✓ Bash  go test ./parser · 1.2 s
//	  ok   parser  0.8s
//
//	● Agent  Find callers
//	  Explore │ › Find all callers of Parse
//	  Explore │ Three places.
//	✓ Agent  Find callers · 4.0 s
//
//	4.3 s · 1.2k in · 56 out · $0.0123
//
// # Rules
//
//   - Only events and blocks are shown; the package reads nothing else.
//   - A line belongs to one block. Text is shown as it arrives for one block at a
//     time; meanwhile the text of other conversations is held back until that
//     block's line ends, so no two texts are ever mixed within a line.
//   - Every line of a subagent has the subagent's name.
//   - An agent's output is text: its control characters do not reach the
//     terminal.
//   - A pipe gets no colours, and nothing is rewritten on it.
package render
