// Package shellwords splits command lines as a shell does.
package shellwords

import "strings"

const blanks = " \t\n"

// Split returns the words of a command line, by a shell's rules of quotes and
// backslashes; nothing is expanded. closed reports whether every quote was
// closed.
func Split(line string) (words []string, closed bool) {
	var s splitter
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' && s.quote != '\'' && i+1 < len(line) {
			i++
			s.escaped(line[i])
			continue
		}
		s.char(line[i])
	}
	s.endWord()
	return s.words, s.quote == 0
}

type splitter struct {
	words []string
	word  []byte
	// inWord is also set for an empty word, as '' is one.
	inWord bool
	// quote is the quote that is open, or 0.
	quote byte
}

func (s *splitter) char(c byte) {
	switch {
	case s.quote != 0 && c == s.quote:
		s.quote = 0
	case s.quote != 0:
		s.add(c)
	case c == '\'' || c == '"':
		s.quote, s.inWord = c, true
	case strings.IndexByte(blanks, c) >= 0:
		s.endWord()
	default:
		s.add(c)
	}
}

// escaped handles a character behind a backslash.
func (s *splitter) escaped(c byte) {
	if s.quote == '"' && strings.IndexByte("\"\\$`\n", c) < 0 {
		s.add('\\')
	}
	s.add(c)
}

func (s *splitter) add(c byte) { s.word, s.inWord = append(s.word, c), true }

func (s *splitter) endWord() {
	if s.inWord {
		s.words = append(s.words, string(s.word))
	}
	s.word, s.inWord = s.word[:0], false
}
