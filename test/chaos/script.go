package chaos

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
)

// mark is the placeholder in a script for the text that distinguishes one message from
// all others.
const mark = "{m}"

// scripts are the messages of sessions. Each ends in a text, and its tools are safe to
// run twice.
var scripts = []string{
	"SAY " + mark + " plain words",
	"THINK " + mark + " and what follows from it",
	"SAY " + mark + " slowly THEN SLOW 2",
	"SAY " + mark + " slowly THEN SLOW 4",
	"SAY " + mark + " a lot THEN DELTAS 600",
	"SAY " + mark + " works THEN TOOL bash: sleep 0.4; echo " + mark + " THEN SAY " + mark + " worked",
	"SAY " + mark + " works long THEN TOOL bash: for i in 1 2 3 4 5 6 7 8; do echo " + mark + " $i; sleep 0.3; done THEN SAY " + mark + " worked long",
	"SAY " + mark + " writes THEN TOOL write: file-" + mark + ".txt :: " + mark + " THEN TOOL read: file-" + mark + ".txt THEN SAY " + mark + " written",
	"SAY " + mark + " two THEN TWO THEN SAY " + mark + " both",
	"SAY " + mark + " delegates THEN SUBAGENT SAY " + mark + " inner ANDTHEN TOOL bash: sleep 0.3; echo " + mark + " ANDTHEN SAY " + mark + " inner end THEN SAY " + mark + " delegated",
}

// sweepScript has each kind of step of a turn: text, tool, text.
const sweepScript = "SAY " + mark + " before THEN TOOL bash: sleep 0.3; echo " + mark + " THEN SAY " + mark + " after"

// fill replaces the placeholder by a message's mark. No mark may be a prefix of
// another.
func fill(script, m string) string { return strings.ReplaceAll(script, mark, m) }

// unfill replaces the mark by the placeholder again, so that answers can be compared.
func unfill(text, m string) string { return strings.ReplaceAll(text, m, mark) }

// messageMark returns the mark of message n of session s.
func messageMark(s, n int) string { return fmt.Sprintf("q%03dx%04dq", s, n) }

var anyMark = regexp.MustCompile(`q\d{3,}x\d{4,}q`)

// otherMark returns the first mark in a text that is not m; "" for none.
func otherMark(text, m string) string {
	for _, found := range anyMark.FindAllString(text, -1) {
		if found != m {
			return found
		}
	}
	return ""
}

// scriptOf returns the index of the script of message n of session s.
func scriptOf(seed uint64, s, n int) int {
	return rand.New(rand.NewPCG(seed, uint64(s)<<32|uint64(n)|1<<63)).IntN(len(scripts))
}
