// Program testreport reads the output of go test -json, of one or of several runs one
// after the other, and prints the readable part: a line per package when it ends, the
// output of failures, and a summary of what ran, failed, was skipped and why, and was
// left out.
//
//	go test -json ./... | go run ./test/testreport
//
// Lines that are no JSON are passed through. It exits with 1 if a package failed or
// nothing ran; with SOJOURN_TEST_STRICT=1 also if anything was skipped because
// something is missing.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sojourn-run/sojourn/test/skip"
)

func main() {
	if err := run(os.Stdin, os.Stdout, os.Getenv(skip.Strict) == "1"); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

// run reports on everything in the input, and returns an error unless the run was a
// success.
func run(in io.Reader, out io.Writer, strict bool) error {
	began := time.Now()
	r := newReport(out)
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		r.line(line)
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("read the test output: %w", err)
		}
	}
	r.summary(time.Since(began))
	return r.verdict(strict)
}
