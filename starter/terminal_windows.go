package starter

import (
	"os"

	"golang.org/x/sys/windows"
)

// enableColors makes the console understand escape sequences.
func enableColors(f *os.File) bool {
	var mode uint32
	console := windows.Handle(f.Fd())
	if windows.GetConsoleMode(console, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
