// Sojourn is the command line: it makes sessions, talks to them, shows them,
// and reads agents' own files without any server.
//
//	sojourn new --agent claude          # prints the session's id
//	sojourn send ID "Say hello"         # waits for the answer and prints it
//	sojourn chat ID                     # talk, with everything to be seen
//	sojourn show ID                     # the whole conversation
//
// Every command takes --json and then prints one JSON value, or JSON lines
// where it streams. The exit code is 0 when it is done, 1 when it failed and 2
// when it was used wrongly; an error is one line on standard error and a hint
// on the next. testdata/script is a manual by example, and a test.
package main

import (
	"context"
	"os"

	"github.com/sojourn-run/sojourn/starter"
)

func main() {
	os.Exit(starter.Run(context.Background(), os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}
