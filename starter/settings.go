package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// settings is the environment, with the settings file behind it.
type settings struct {
	file   map[string]string
	getenv func(string) string
}

// get gives a setting; "" when it is not set.
func (s settings) get(name string) string {
	return cmp.Or(s.getenv(name), s.file[name])
}

// loadSettings reads the settings file, if one is named: it answers for what
// the environment does not set, as it does for the worker. The AWS client and
// the agents read the process's own environment, so what the file says goes
// there too.
func (c *cli) loadSettings() error {
	c.env = settings{getenv: c.getenv}
	name := cmp.Or(c.envFile, c.getenv("SOJOURN_ENV_FILE"))
	if name == "" {
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return usage("name a file of NAME='value' lines, such as sojourn-devstack writes", "settings file: %s", plainPathError(err))
	}
	defer f.Close()
	c.env.file, err = readEnvFile(f, name)
	if err != nil {
		return err
	}
	for name, value := range c.env.file {
		if c.getenv(name) != "" {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// plainPathError leaves out the name of the system call.
func plainPathError(err error) string {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Path + ": " + p.Err.Error()
	}
	return err.Error()
}

var assignment = regexp.MustCompile(`^(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)$`)

// readEnvFile reads shell assignments: one to a line, the value plain or in
// quotes, with comments and blank lines between. It expands nothing.
func readEnvFile(r io.Reader, name string) (map[string]string, error) {
	vars := map[string]string{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		m := assignment.FindStringSubmatch(line)
		value, ok := "", false
		if m != nil {
			value, ok = unquote(m[2])
		}
		if !ok {
			return nil, usage("write one NAME='value' to a line", "settings file: %s:%d: not an assignment", name, n)
		}
		vars[m[1]] = value
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("settings file: %s: %w", name, err)
	}
	return vars, nil
}

// unquote reads one word as a shell does, pieces in different quotes joined;
// a word that would expand something is refused.
func unquote(s string) (string, bool) {
	var b strings.Builder
	for s != "" {
		piece, rest, ok := shellPiece(s)
		if !ok {
			return "", false
		}
		if strings.HasPrefix(rest, " #") || strings.HasPrefix(rest, "\t#") {
			rest = ""
		}
		b.WriteString(piece)
		s = rest
	}
	return b.String(), true
}

func shellPiece(s string) (piece, rest string, ok bool) {
	switch s[0] {
	case '\'':
		return strings.Cut(s[1:], "'")
	case '"':
		return doubleQuoted(s[1:])
	case '\\':
		if len(s) < 2 {
			return "", "", false
		}
		return s[1:2], s[2:], true
	}
	end := strings.IndexAny(s, "'\"\\ \t")
	if end < 0 {
		end = len(s)
	}
	return s[:end], s[end:], end > 0 && !strings.ContainsAny(s[:end], "$`;&|<>()")
}

func doubleQuoted(s string) (piece, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '$', '`':
			return "", "", false
		case '\\':
			if i+1 < len(s) && strings.IndexByte("\"\\$`", s[i+1]) >= 0 {
				i++
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}
