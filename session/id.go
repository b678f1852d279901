package session

import (
	"fmt"
	"regexp"
)

var idRule = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// ValidateID checks a session or message id: 1 to 64 characters of
// A-Z a-z 0-9 _ and -. Field is the name used in the error.
func ValidateID(field, id string) error {
	if !idRule.MatchString(id) {
		return Invalid(field, fmt.Sprintf("%q is not an id", shorten(id, 80)), "1 to 64 of the characters A-Z a-z 0-9 _ -")
	}
	return nil
}

func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
