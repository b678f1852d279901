package layering

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// stage lists the rows of the requirements that hold now, first and last of
// each stretch. A row is proven by a test that is named after it:
// TestR60BlockUpsert, or TestR60 alone.
var stage = [][2]int{
	{1, 5}, {10, 13}, {15, 19}, {22, 23}, {26, 29}, {41, 45}, {48, 74}, {76, 115},
}

func TestRequirementRowsHaveTests(t *testing.T) {
	t.Parallel()
	proven := map[int]bool{}
	dir := root(t)
	eachGoFile(t, dir, func(name string) {
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		for _, row := range rowsOf(data) {
			proven[row] = true
		}
	})
	require.Empty(t, missing(proven), "these rows of the requirements have no test named TestR<row>…")
}

func TestAMissingRowIsNamed(t *testing.T) {
	t.Parallel()
	all := map[int]bool{}
	for _, row := range missing(nil) {
		all[row] = true
	}
	require.Len(t, all, 92)
	require.Empty(t, missing(all))
	delete(all, 60)
	delete(all, 114)
	require.Equal(t, []int{60, 114}, missing(all))
}

func TestARowIsReadFromATestsName(t *testing.T) {
	t.Parallel()
	const source = "func TestR60BlockUpsert(t *testing.T) {\nfunc TestR7(t *testing.T) {}\nfunc TestR61_Delta(t *testing.T) {\n" +
		"// func TestR1Comment(t *testing.T) {\nfunc TestRun5(t *testing.T) {\nfunc TestR12ands(b *testing.B) {\nfunc FuzzR13(f *testing.F) {"
	require.Equal(t, []int{60, 7, 61}, rowsOf([]byte(source)))
}

// rowTest is a test's name with its row: a row alone, or one and a word that
// begins with a capital or an underscore.
var rowTest = regexp.MustCompile(`(?m)^func TestR(\d+)(?:[A-Z_]\w*)?\(\w+ \*testing\.T\)`)

func rowsOf(source []byte) []int {
	var rows []int
	for _, m := range rowTest.FindAllSubmatch(source, -1) {
		if n, err := strconv.Atoi(string(m[1])); err == nil {
			rows = append(rows, n)
		}
	}
	return rows
}

func missing(proven map[int]bool) []int {
	var rows []int
	for _, stretch := range stage {
		for row := stretch[0]; row <= stretch[1]; row++ {
			if !proven[row] {
				rows = append(rows, row)
			}
		}
	}
	slices.Sort(rows)
	return rows
}
