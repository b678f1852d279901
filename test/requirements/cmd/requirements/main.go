// Command requirements checks that the rows of the requirements, their tests
// and docs/requirements.md agree, and writes the document with --write.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sojourn-run/sojourn/test/requirements"
)

func main() {
	write := flag.Bool("write", false, "write "+requirements.Document)
	flag.Parse()
	faults, err := run(*write)
	if err != nil {
		fmt.Fprintln(os.Stderr, "requirements:", err)
		os.Exit(1)
	}
	for _, f := range faults {
		fmt.Fprintln(os.Stderr, "requirements:", f)
	}
	if len(faults) > 0 {
		os.Exit(1)
	}
}

// run returns the faults that it found, after writing the document if write is set.
func run(write bool) ([]string, error) {
	dir, err := root()
	if err != nil {
		return nil, err
	}
	tree := os.DirFS(dir)
	rows, err := requirements.Rows()
	if err != nil {
		return nil, err
	}
	tests, err := requirements.Tests(tree)
	if err != nil {
		return nil, err
	}
	if write {
		return nil, os.WriteFile(filepath.Join(dir, requirements.Document), []byte(requirements.Render(rows, tests)), 0o644)
	}
	return requirements.Check(rows, tests, tree), nil
}

// root returns the nearest folder with a go.mod, from the working folder upwards.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no go.mod here or above")
		}
		dir = up
	}
}
