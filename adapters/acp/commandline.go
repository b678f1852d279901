package acp

import (
	"errors"
	"strings"

	"github.com/sojourn-run/sojourn/adapters/internal/shellwords"
)

// commandLine is a command in shell words: assignments, a program, and its
// arguments.
type commandLine struct {
	env, argv []string
}

var (
	errNoProgram = errors.New("it names no program")
	errOpenQuote = errors.New("a quote is not closed")
)

// readCommandLine reads words with quotes and backslashes as a shell does;
// nothing else is special.
func readCommandLine(line string) (commandLine, error) {
	words, closed := shellwords.Split(line)
	if !closed {
		return commandLine{}, errOpenQuote
	}
	n := 0
	for n < len(words) && isAssignment(words[n]) {
		n++
	}
	if n == len(words) || words[n] == "" {
		return commandLine{}, errNoProgram
	}
	return commandLine{env: words[:n:n], argv: words[n:]}, nil
}

func isAssignment(word string) bool {
	name, _, is := strings.Cut(word, "=")
	return is && name != "" && strings.Trim(name, letters+"0123456789_") == "" && strings.Trim(name[:1], "0123456789") != ""
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// String returns the line that reads as the same words.
func (c commandLine) String() string {
	var words []string
	for _, assignment := range c.env {
		name, value, _ := strings.Cut(assignment, "=")
		words = append(words, name+"="+quoted(value))
	}
	for i, word := range c.argv {
		if q := quoted(word); i > 0 || !isAssignment(word) || q != word {
			words = append(words, q)
		} else {
			words = append(words, "'"+word+"'")
		}
	}
	return strings.Join(words, " ")
}

func quoted(word string) string {
	const plain = letters + "0123456789_-./:=@%+,*?[]~"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
