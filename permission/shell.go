package permission

import (
	"regexp"
	"slices"
	"strings"
)

// commands returns the commands that a shell line runs, as far as its text shows.
// A split within quotes only yields more of them, each of which an allowing rule
// must match.
func commands(line string) []string {
	var out []string
	for _, part := range split(line, ";&|\n\r") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// unbounded reports whether an act may do more than its text shows: by an expansion, or by
// a .. in a path or an address, in any of its spellings.
func unbounded(act string) bool {
	if strings.ContainsAny(act, "`<>$(){}") {
		return true
	}
	for range mostEscapes {
		if parent.MatchString(act) || parent.MatchString(unquote.Replace(act)) {
			return true
		}
		plain := unescape.Replace(act)
		if plain == act {
			return false
		}
		act = plain
	}
	return true
}

// mostEscapes bounds how often an address is escaped in itself.
const mostEscapes = 4

var (
	// parent matches a component .. of a path, and a pattern that a shell may expand to it.
	parent = regexp.MustCompile(`(^|[/\\\s=:,'"])\.(\.($|[/\\\s=:,'"?#;&])|[?*\[])`)
	// unescape replaces what an address may have instead of .. and its separators.
	unescape = strings.NewReplacer("%25", "%", "%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/", "%5c", `\`, "%5C", `\`)
)

var (
	// runners are the words that run the command that follows them.
	runners = strings.Fields("! if then do else elif while until time exec command builtin eval env nohup sudo doas nice timeout xargs setsid stdbuf coproc trap sh bash dash zsh")
	// prefix matches the words before a command that are no command: an assignment, a
	// redirection, a number (of timeout, or of a descriptor) and an option of a runner.
	prefix = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\[.*\])?\+?=|[<>]|^[0-9]|^-`)
	// takesNext matches a prefix whose value may be the next word.
	takesNext = regexp.MustCompile(`^-|[<>]$`)

	blanks  = regexp.MustCompile(`\s+`)
	unquote = strings.NewReplacer("$'", "", `$"`, "", "'", "", `"`, "", `\`, "")
	blankIn = strings.NewReplacer("${IFS}", " ", "$IFS", " ")
	// lists replaces the braces of {git,push}, which are the words git and push.
	lists = strings.NewReplacer("{", " ", "}", " ", ",", " ")
)

// plainPattern returns a pattern in the form that spellings have.
func plainPattern(pattern string) string {
	return blanks.ReplaceAllString(unquote.Replace(pattern), " ")
}

// spellings returns the commands that a shell line may run, in one spelling: without quotes
// and backslashes, with single blanks, and without what precedes them. Some of them the
// shell doesn't run: a rule that denies or asks matches rather too much. An expansion
// other than that of IFS and braces is not computed.
func spellings(line string) []string {
	var out []string
	// Behind a comment or another backslash a backslash doesn't join the lines.
	for _, text := range []string{line, strings.ReplaceAll(line, "\\\n", "")} {
		text = blankIn.Replace(text)
		out = append(out, behindPrefixes(text)...)
		for _, part := range split(text, ";&|\n\r(){}`") {
			out = append(out, behindPrefixes(part)...)
		}
		if !strings.Contains(text, "{") {
			continue
		}
		for _, part := range split(lists.Replace(text), ";&|\n\r()`") {
			out = append(out, behindPrefixes(part)...)
		}
	}
	return out
}

func split(text, at string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(at, r) })
}

// mostPrefixes bounds the work for a line of nothing but sudo: the first and the last so many
// spellings of a command are matched.
const mostPrefixes = 64

// behindPrefixes returns a command in plain spelling, and what remains of it behind each word
// that only precedes or runs another command.
func behindPrefixes(command string) []string {
	var out []string
	rest := strings.TrimSpace(blanks.ReplaceAllString(unquote.Replace(command), " "))
	value := false
	for rest != "" {
		word, next, _ := strings.Cut(rest, " ")
		name := word[strings.LastIndexByte(word, '/')+1:]
		out = append(out, rest, rest[len(word)-len(name):])
		before := prefix.MatchString(word)
		if !before && !value && !slices.Contains(runners, name) {
			break
		}
		value = before && takesNext.MatchString(word)
		rest = next
	}
	if len(out) > 2*mostPrefixes {
		return slices.Delete(out, mostPrefixes, len(out)-mostPrefixes)
	}
	return out
}
