package reducer

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// story is a txtar file: prose, then sections that each start with a line "-- name --". The
// format is small enough to be parsed here without adding a module.
type story struct {
	prose    []byte
	sections []section
}

type section struct {
	name string
	data []byte
}

func parseStory(data []byte) story {
	var s story
	into := &s.prose
	for line := range bytes.Lines(data) {
		if name, ok := sectionName(line); ok {
			s.sections = append(s.sections, section{name: name})
			into = &s.sections[len(s.sections)-1].data
			continue
		}
		*into = append(*into, line...)
	}
	return s
}

func sectionName(line []byte) (string, bool) {
	name, begins := bytes.CutPrefix(bytes.TrimRight(line, "\n"), []byte("-- "))
	name, ends := bytes.CutSuffix(name, []byte(" --"))
	return string(name), begins && ends
}

func (s story) format() []byte {
	out := bytes.Clone(s.prose)
	for _, sec := range s.sections {
		out = append(out, "-- "+sec.name+" --\n"...)
		out = append(out, sec.data...)
	}
	return out
}

// section returns a section by name, nil if the story has none.
func (s story) section(name string) *section {
	for i := range s.sections {
		if s.sections[i].name == name {
			return &s.sections[i]
		}
	}
	return nil
}

func TestStoryFormat(t *testing.T) {
	t.Parallel()
	text := "prose\n-- a --\n1\n-- b --\n-- c --\n-- not a head\n"
	s := parseStory([]byte(text))
	require.Equal(t, "prose\n", string(s.prose))
	require.Equal(t, "1\n", string(s.section("a").data))
	require.Empty(t, s.section("b").data)
	require.Equal(t, "-- not a head\n", string(s.section("c").data))
	require.Nil(t, s.section("d"))
	require.Equal(t, text, string(s.format()))
}
