package render

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean returns text that is safe for a terminal: control characters, which could
// move the cursor or rename the window, and marks that reverse the direction of
// writing are removed. Line ends and tabs are kept.
func clean(s string) string {
	if !strings.ContainsFunc(s, unsafe) {
		return s
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if unsafe(r) {
			return -1
		}
		return r
	}, s)
}

func unsafe(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case unicode.Is(unicode.Cc, r):
		return true
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

// visible returns s as one line, with every character that does not show as
// itself written as its escape: a carriage return is \r, an escape \x1b. Nothing
// is left out, and a tab takes four columns.
func visible(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\t':
			b.WriteString("    ")
		case hidden(r):
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hidden reports whether a terminal shows nothing for r, or something else.
func hidden(r rune) bool {
	return !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// oneLine returns s with every run of white space as one space.
func oneLine(s string) string { return strings.Join(strings.Fields(clean(s)), " ") }

// cut shortens s to so many columns, with an ellipsis.
func cut(s string, columns int) string {
	if width(s) <= columns {
		return s
	}
	used := 0
	for i, r := range s {
		used += runeWidth(r)
		if used > columns-1 {
			return s[:i] + "…"
		}
	}
	return s
}

// width returns the number of columns that s takes on a terminal.
func width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// wide are the characters that take two columns, roughly: East Asian ones and
// pictures.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1}, {Lo: 0x2e80, Hi: 0xa4cf, Stride: 1}, {Lo: 0xac00, Hi: 0xd7a3, Stride: 1},
		{Lo: 0xf900, Hi: 0xfaff, Stride: 1}, {Lo: 0xfe30, Hi: 0xfe6f, Stride: 1}, {Lo: 0xff00, Hi: 0xff60, Stride: 1},
		{Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{{Lo: 0x1f300, Hi: 0x1faff, Stride: 1}, {Lo: 0x20000, Hi: 0x3fffd, Stride: 1}},
}

func runeWidth(r rune) int {
	switch {
	case r < utf8.RuneSelf:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}

// wrap breaks a line into pieces of so many columns, at spaces where there
// are any.
func wrap(s string, columns int) []string {
	if columns < 8 || width(s) <= columns {
		return []string{s}
	}
	var lines []string
	for width(s) > columns {
		at := breakAt(s, columns)
		lines = append(lines, strings.TrimRight(s[:at], " "))
		s = strings.TrimLeft(s[at:], " ")
	}
	return append(lines, s)
}

// breakAt returns the end in bytes of the first piece of s.
func breakAt(s string, columns int) int {
	used, space := 0, 0
	for i, r := range s {
		used += runeWidth(r)
		if used > columns {
			if space > 0 {
				return space
			}
			return max(i, 1)
		}
		if r == ' ' {
			space = i + 1
		}
	}
	return len(s)
}

// splitAt returns the end in bytes of what fits of s into so many columns; at
// least one character.
func splitAt(s string, columns int) int {
	used := 0
	for i, r := range s {
		used += runeWidth(r)
		if used > columns && i > 0 {
			return i
		}
	}
	return len(s)
}

// Clean returns text of any number of lines, safe for a terminal.
func Clean(s string) string { return clean(s) }

// Short returns text in one line of so many columns, safe for a terminal.
func Short(s string, columns int) string { return cut(oneLine(s), columns) }
