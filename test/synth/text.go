package synth

import (
	"fmt"
	"strings"
)

var words = strings.Fields(`the a of session worker when stream returns is not archive error and file which path
	record then block event state test fails because line time agent waits until process ends result for every
	naïve größer → 多字节 update cache (see) value, number. check: 42 /srv/sample-lab/run config.yaml`)

func (s *session) word() string { return words[s.dice.IntN(len(words))] }

// prose returns about n bytes of words, in paragraphs.
func (s *session) prose(n int) string {
	var out strings.Builder
	for out.Len() < n {
		out.WriteString(s.word())
		switch s.dice.IntN(40) {
		case 0:
			out.WriteString(".\n\n")
		case 1:
			out.WriteString(" `code` ")
		default:
			out.WriteByte(' ')
		}
	}
	return out.String()
}

// output returns the output of a tool: mostly a few KB, rarely much.
func (s *session) output() string {
	n := 200 + s.dice.IntN(4000)
	if s.dice.IntN(6) == 0 {
		n = 6000 + s.dice.IntN(6000)
	}
	kind := s.dice.IntN(4)
	var out strings.Builder
	for i := 1; out.Len() < n; i++ {
		switch kind {
		case 0:
			fmt.Fprintf(&out, "%6d\t\tif err := %s.%s(ctx, \"%s\"); err != nil {\n", i, s.word(), s.word(), s.word())
		case 1:
			fmt.Fprintf(&out, "-rw-r--r-- 1 root root %6d Jan  1 09:%02d internal/%s/%s_%d.go\n", s.dice.IntN(1e6), i%60, s.word(), s.word(), i)
		case 2:
			fmt.Fprintf(&out, "  \"%s\": {\"%s\": %d, \"ok\": true},\n", s.word(), s.word(), s.dice.IntN(1e6))
		default:
			out.WriteString(s.prose(90))
			out.WriteByte('\n')
		}
	}
	return out.String()
}
