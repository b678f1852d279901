// Program size prints how large and how complex the code is, and fails beyond the
// limits. It works on the Go files that git tracks in the current folder.
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"

	"github.com/fzipp/gocyclo"
)

const (
	// maxComplexity is the cyclomatic complexity of any function, tests included.
	maxComplexity = 15
	// maxFunction is the number of lines of a function in the core and in the
	// activities.
	maxFunction = 60
	// maxCore is the number of lines of the core's packages.
	maxCore = 6500
)

// core are the packages that one reads to understand Sojourn. Their subpackages,
// such as event/jsonl, are not counted: the core doesn't need them.
var core = []string{"event", "reducer", "turn", "workflows"}

// proof are folders that are not part of the product: suites, benches, and the
// tools that check the repository.
var proof = []string{"test", "internal/tools"}

func main() {
	faults, err := measure()
	if err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(2)
	}
	for _, fault := range faults {
		fmt.Println("over the limit:", fault)
	}
	if len(faults) > 0 {
		os.Exit(1)
	}
}

// measure prints the figures and returns those over their limits.
func measure() (faults []string, err error) {
	out, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.go").Output()
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	var product, productCode, inCore, longest, complexity int
	for _, name := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		f, err := read(name)
		if os.IsNotExist(err) {
			continue // Deleted, and not committed yet.
		}
		if err != nil {
			return nil, err
		}
		if f.product() {
			product, productCode = product+f.lines, productCode+f.code
		}
		if f.in(core) {
			inCore += f.lines
		}
		complexity = max(complexity, f.complexity(&faults))
		if f.in(core) || f.in([]string{"activities", "host"}) {
			longest = max(longest, f.longest(&faults))
		}
	}
	if inCore > maxCore {
		faults = append(faults, fmt.Sprintf("%s: %d lines", strings.Join(core, " + "), inCore))
	}
	fmt.Printf("product: %d lines, %d without comments and blank lines\n%s: %d lines, at most %d\nlongest function of these, activities and host: %d lines, at most %d\ncomplexity: %d, at most %d\n",
		product, productCode, strings.Join(core, " + "), inCore, maxCore, longest, maxFunction, complexity, maxComplexity)
	return faults, nil
}

// file is a parsed Go file.
type file struct {
	name string
	// lines are all, code those that are neither blank nor a comment.
	lines, code int
	set         *token.FileSet
	tree        *ast.File
}

func read(name string) (*file, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, name, data, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := &file{name: name, set: set, tree: tree}
	for line := range bytes.Lines(data) {
		f.lines++
		if line = bytes.TrimSpace(line); len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
			f.code++
		}
	}
	return f, nil
}

func (f *file) test() bool { return strings.HasSuffix(f.name, "_test.go") }

func (f *file) product() bool {
	return !f.test() && !slices.ContainsFunc(proof, func(folder string) bool { return strings.HasPrefix(f.name, folder+"/") })
}

// in reports whether the file is code of one of the packages, tests left out.
func (f *file) in(packages []string) bool {
	return !f.test() && slices.Contains(packages, path.Dir(f.name))
}

// complexity returns that of the most complex function, and adds those over the
// limit to faults.
func (f *file) complexity(faults *[]string) (most int) {
	for _, s := range gocyclo.AnalyzeASTFile(f.tree, f.set, nil) {
		most = max(most, s.Complexity)
		if s.Complexity > maxComplexity {
			*faults = append(*faults, fmt.Sprintf("%s: %s has complexity %d", s.Pos, s.FuncName, s.Complexity))
		}
	}
	return most
}

// longest returns the lines of the longest function, and adds those over the limit
// to faults.
func (f *file) longest(faults *[]string) (most int) {
	for _, decl := range f.tree.Decls {
		d, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		begin := f.set.Position(d.Pos())
		lines := f.set.Position(d.End()).Line - begin.Line + 1
		most = max(most, lines)
		if lines > maxFunction {
			*faults = append(*faults, fmt.Sprintf("%s: %s has %d lines", begin, d.Name.Name, lines))
		}
	}
	return most
}
