//go:build !windows

package starter

import "os"

// enableColors does nothing on systems whose terminals understand escape
// sequences.
func enableColors(*os.File) bool { return true }
