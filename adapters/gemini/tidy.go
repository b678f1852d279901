package gemini

import (
	"strings"
	"unicode"
)

// The agent streams a text as the model sends it and stores it cleaned: without
// invisible characters and HTML comments, and without surrounding white space.
// tidy returns the same while the text arrives.

const (
	openComment  = "<!--"
	closeComment = "-->"
)

// tidy returns what can be emitted of held+chunk, and what must wait for more:
// white space that may be the text's end, and what may be a comment.
func tidy(begun bool, held, chunk string, end bool) (out, rest string) {
	text := held + visible(chunk)
	text, rest = withoutComments(text, end)
	if !begun {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	kept := strings.TrimRightFunc(text, unicode.IsSpace)
	if end {
		return kept, ""
	}
	return kept, text[len(kept):] + rest
}

// visible drops characters that are not visible.
func visible(text string) string {
	if strings.IndexFunc(text, invisible) < 0 {
		return text
	}
	return strings.Map(func(r rune) rune {
		if invisible(r) {
			return -1
		}
		return r
	}, text)
}

func invisible(r rune) bool { return r >= 0x200B && r <= 0x200F || r == 0xFEFF }

// withoutComments drops whole comments, and holds back what may become one.
func withoutComments(text string, end bool) (clean, rest string) {
	from := 0
	for {
		at := strings.Index(text[from:], openComment)
		if at < 0 {
			break
		}
		at += from
		size := strings.Index(text[at+len(openComment):], closeComment)
		if size < 0 {
			if end {
				return text, ""
			}
			return text[:at], text[at:]
		}
		text = text[:at] + text[at+len(openComment)+size+len(closeComment):]
		from = at
	}
	if end {
		return text, ""
	}
	for n := len(openComment) - 1; n > 0; n-- {
		if strings.HasSuffix(text, openComment[:n]) {
			return text[:len(text)-n], text[len(text)-n:]
		}
	}
	return text, ""
}

// tidied returns a whole text, cleaned.
func tidied(text string) string {
	out, _ := tidy(false, "", text, true)
	return out
}

// liveThought returns a thought as the protocol reports it, in the form of
// thoughtText, and its subject.
func liveThought(chunk string) (text, subject string) {
	rest, is := strings.CutPrefix(chunk, "**")
	if !is {
		return chunk, ""
	}
	subject, description, is := strings.Cut(rest, "**\n")
	if !is {
		return chunk, ""
	}
	return thoughtText(subject, description), subject
}

// thoughtText returns a thought with its heading.
func thoughtText(subject, description string) string {
	switch {
	case subject == "":
		return description
	case description == "":
		return "**" + subject + "**"
	}
	return "**" + subject + "**\n" + description
}
