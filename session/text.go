package session

import (
	"fmt"
	"unicode/utf8"
)

// validateUTF8 refuses text that JSON would change on the way: bytes that are not
// UTF-8 would be replaced silently.
func validateUTF8(field, s string) error {
	if utf8.ValidString(s) {
		return nil
	}
	return Invalid(field, "is not UTF-8", "text in UTF-8")
}

// maxReason bounds a text for people, such as a reason: it is carried from run to run, with
// each message that it ends.
const maxReason = 4096

// validateText checks a text of at most so many bytes.
func validateText(field, s string, most int) error {
	if len(s) > most {
		return Invalid(field, fmt.Sprintf("is %d bytes", len(s)), fmt.Sprintf("at most %d bytes", most))
	}
	return validateUTF8(field, s)
}

// firstUTF8 checks several fields, passed as name and text in turn.
func firstUTF8(pairs ...string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		if err := validateUTF8(pairs[i], pairs[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// firstOf returns the first error, if there is one.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
