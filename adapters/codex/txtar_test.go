package codex

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// archive is a txtar file: prose, then sections that each begin with a line
// "-- name --".
type archive struct {
	comment  string
	sections []section
}

type section struct{ name, text string }

func readArchive(t testing.TB, file string) *archive {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	a := &archive{}
	into := &a.comment
	for _, l := range strings.SplitAfter(string(data), "\n") {
		if name, ok := sectionName(l); ok {
			a.sections = append(a.sections, section{name: name})
			into = &a.sections[len(a.sections)-1].text
			continue
		}
		*into += l
	}
	return a
}

func sectionName(line string) (string, bool) {
	name, ok := strings.CutPrefix(line, "-- ")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(name, " --\n")
}

func (a *archive) get(name string) string {
	for _, s := range a.sections {
		if s.name == name {
			return s.text
		}
	}
	return ""
}

func (a *archive) set(name, text string) {
	for i := range a.sections {
		if a.sections[i].name == name {
			a.sections[i].text = text
			return
		}
	}
	a.sections = append(a.sections, section{name, text})
}

func (a *archive) String() string {
	var b strings.Builder
	b.WriteString(a.comment)
	for _, s := range a.sections {
		b.WriteString("-- " + s.name + " --\n" + s.text)
	}
	return b.String()
}
