package mutants

import (
	_ "embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sojourn-run/sojourn/test/requirements"
)

//go:embed mutants.txt
var stored string

// Mutant is a change of the product that a row's test must detect.
type Mutant struct {
	Row int `json:"row"`
	// File is the changed file, from the root, with slashes.
	File string `json:"file"`
	// Old is a part of one line, found exactly once in File; New replaces it.
	Old string `json:"old"`
	New string `json:"new"`
	// Package is the test's folder from the root, Test its name.
	Package string `json:"package"`
	Test    string `json:"test"`
	// CI reports whether it is one of the fast ones that every run of CI includes.
	CI bool `json:"ci,omitempty"`
}

// String returns the change on one line.
func (m Mutant) String() string {
	return fmt.Sprintf("%s: %s → %s", m.File, strings.TrimSpace(m.Old), strings.TrimSpace(m.New))
}

// Table returns all mutants in the order of the table.
func Table() ([]Mutant, error) { return parse(stored) }

// parse reads entries of four lines, with empty lines between them:
//
//	60 reducer TestR60BlockUpsert [ci]
//	reducer/rules.go
//	- what it says
//	+ what the mutant says
func parse(text string) ([]Mutant, error) {
	var mutants []Mutant
	var entry []string
	for n, line := range append(strings.Split(text, "\n"), "") {
		switch {
		case strings.HasPrefix(line, "#"):
		case line != "":
			entry = append(entry, line)
		case len(entry) > 0:
			m, err := parseEntry(entry)
			if err != nil {
				return nil, fmt.Errorf("mutants.txt: the entry before line %d: %w", n+1, err)
			}
			mutants, entry = append(mutants, m), nil
		}
	}
	return mutants, nil
}

func parseEntry(lines []string) (Mutant, error) {
	if len(lines) != 4 {
		return Mutant{}, fmt.Errorf("has %d lines, not 4: row and test, file, - old, + new", len(lines))
	}
	head := strings.Fields(lines[0])
	if len(head) != 3 && (len(head) != 4 || head[3] != "ci") {
		return Mutant{}, fmt.Errorf("%q is not: row package test [ci]", lines[0])
	}
	row, err := strconv.Atoi(head[0])
	if err != nil {
		return Mutant{}, fmt.Errorf("%q is no row: %w", head[0], err)
	}
	m := Mutant{Row: row, File: lines[1], Package: head[1], Test: head[2], CI: len(head) == 4}
	var isOld, isNew bool
	m.Old, isOld = strings.CutPrefix(lines[2], "- ")
	m.New, isNew = strings.CutPrefix(lines[3], "+")
	m.New = strings.TrimPrefix(m.New, " ")
	if !isOld || !isNew || m.Old == m.New {
		return Mutant{}, fmt.Errorf("wants a line that begins with - and another one that begins with +")
	}
	return m, nil
}

// Apply returns the changed file of a mutant.
func (m Mutant) Apply(tree fs.FS) ([]byte, error) {
	data, err := fs.ReadFile(tree, m.File)
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(data), m.Old); n != 1 {
		return nil, fmt.Errorf("%s has %q %d times, not once", m.File, m.Old, n)
	}
	return []byte(strings.Replace(string(data), m.Old, m.New, 1)), nil
}

// Check returns a sentence for each mutant that doesn't apply to the tree, or whose
// test is not one of its row.
func Check(mutants []Mutant, tests []requirements.Test, tree fs.FS) []string {
	var faults []string
	for _, m := range mutants {
		if _, err := m.Apply(tree); err != nil {
			faults = append(faults, fmt.Sprintf("row %d: %v", m.Row, err))
		}
		if strings.HasSuffix(m.File, "_test.go") {
			faults = append(faults, fmt.Sprintf("row %d: %s is not of the product", m.Row, m.File))
		}
		if !slices.ContainsFunc(tests, m.testedBy) {
			faults = append(faults, fmt.Sprintf("row %d: %s has no test %s of that row", m.Row, m.Package, m.Test))
		}
	}
	return faults
}

func (m Mutant) testedBy(t requirements.Test) bool {
	return t.Row == m.Row && t.Name == m.Test && path.Dir(t.File) == m.Package
}
