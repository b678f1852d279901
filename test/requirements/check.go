package requirements

import (
	"fmt"
	"io/fs"
	"path"
)

// Document is the path of the document with the rows and their tests, from the root.
const Document = "docs/requirements.md"

// Check returns a sentence for each fault of rows, tests and document.
func Check(rows []Row, tests []Test, tree fs.FS) []string {
	var faults []string
	proven := map[int]bool{}
	for _, t := range tests {
		if fault := faultOf(t, rows); fault != "" {
			faults = append(faults, fmt.Sprintf("%s in %s %s", t.Name, t.File, fault))
		}
		proven[t.Row] = true
	}
	for _, r := range rows {
		if r.Status == Done && !proven[r.Number] {
			faults = append(faults, fmt.Sprintf("row %d (%s) is done and no test is named TestR%d…", r.Number, r.Name, r.Number))
		}
		if r.Decision != "" && !decided(tree, r.Decision) {
			faults = append(faults, fmt.Sprintf("row %d (%s) is by decision %s, which docs/decisions does not have", r.Number, r.Name, r.Decision))
		}
	}
	if stale(rows, tests, tree) {
		faults = append(faults, Document+" is stale: go generate ./test/requirements")
	}
	return faults
}

func faultOf(t Test, rows []Row) string {
	switch {
	case t.Row < 1 || t.Row > len(rows):
		return fmt.Sprintf("is named after row %d, and there is none", t.Row)
	case rows[t.Row-1].Status == Open:
		return fmt.Sprintf("is named after row %d, which is open", t.Row)
	case !t.Asserts:
		return "asserts nothing"
	}
	return ""
}

func decided(tree fs.FS, decision string) bool {
	_, err := fs.Stat(tree, path.Join("docs/decisions", decision+".md"))
	return err == nil
}

func stale(rows []Row, tests []Test, tree fs.FS) bool {
	has, err := fs.ReadFile(tree, Document)
	return err != nil || string(has) != Render(rows, tests)
}
