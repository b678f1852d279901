package gemini

import (
	"strconv"
	"strings"
)

// commandTOML converts a profile's command, Markdown with front matter, to the
// agent's form.
func commandTOML(markdown string) string {
	description, body := frontMatter(markdown)
	// The agent's name for what follows the command's name.
	body = strings.ReplaceAll(body, "$ARGUMENTS", "{{args}}")
	text := "prompt = " + tomlString(body) + "\n"
	if description != "" {
		text = "description = " + tomlString(description) + "\n" + text
	}
	return text
}

// frontMatter returns the description from a Markdown file's head, and the file
// without the head.
func frontMatter(markdown string) (description, body string) {
	rest, has := strings.CutPrefix(markdown, "---\n")
	if !has {
		return "", markdown
	}
	head, body, closed := strings.Cut(rest, "\n---\n")
	if !closed {
		return "", markdown
	}
	for _, line := range strings.Split(head, "\n") {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == "description" {
			description = unquote(strings.TrimSpace(value))
		}
	}
	return description, strings.TrimLeft(body, "\n")
}

func unquote(s string) string {
	if plain, err := strconv.Unquote(s); err == nil {
		return plain
	}
	return strings.Trim(s, "'")
}

// tomlString returns a basic string of TOML.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f:
			b.WriteString(`\u00` + strconv.FormatInt(int64(r)+0x100, 16)[1:])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
