package session

import "unicode/utf8"

// validateUTF8 refuses text that JSON would change on the way: bytes that are not
// UTF-8 would be replaced silently.
func validateUTF8(field, s string) error {
	if utf8.ValidString(s) {
		return nil
	}
	return Invalid(field, "is not UTF-8", "text in UTF-8")
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
