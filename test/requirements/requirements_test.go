package requirements

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestRowsAreWhole(t *testing.T) {
	t.Parallel()
	rows, err := Rows()
	require.NoError(t, err)
	require.Len(t, rows, 138)
}

// Each tree has one fault.
func TestCheckNamesTheFault(t *testing.T) {
	t.Parallel()
	const asserting = "package p\nimport \"testing\"\nfunc TestR1Works(t *testing.T) { require.True(t, works()) }\n"
	rows := []Row{
		{Number: 1, Group: "G", Name: "work", Text: "it works", Status: Done},
		{Number: 2, Group: "G", Name: "more", Text: "it does more", Status: Open},
		{Number: 3, Group: "G", Name: "other", Text: "it does other things", Status: Decided, Decision: "0001-other"},
	}
	cases := map[string]struct {
		tests string
		stale bool
		away  string
		want  string
	}{
		"nothing":              {tests: asserting},
		"a row without a test": {tests: "package p\n", want: "row 1 (work) is done and no test is named TestR1…"},
		"a test of no row": {tests: asserting + "func TestR4Extra(t *testing.T) { t.Fatal() }",
			want: "TestR4Extra in p/a_test.go is named after row 4, and there is none"},
		"a test of an open row": {tests: asserting + "func TestR2(t *testing.T) { t.Fatal() }",
			want: "TestR2 in p/a_test.go is named after row 2, which is open"},
		"a test that asserts nothing": {tests: "package p\nimport \"testing\"\nfunc TestR1Works(t *testing.T) { t.Parallel(); w := start(t); w.Stop() }",
			want: "TestR1Works in p/a_test.go asserts nothing"},
		"a stale document":   {tests: asserting, stale: true, want: "docs/requirements.md is stale: go generate ./test/requirements"},
		"a missing decision": {tests: asserting, away: "docs/decisions/0001-other.md", want: "row 3 (other) is by decision 0001-other, which docs/decisions does not have"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := fstest.MapFS{"p/a_test.go": {Data: []byte(c.tests)}, "docs/decisions/0001-other.md": {}}
			delete(tree, c.away)
			tests, err := Tests(tree)
			require.NoError(t, err)
			if !c.stale {
				tree[Document] = &fstest.MapFile{Data: []byte(Render(rows, tests))}
			}
			require.Equal(t, c.want, strings.Join(Check(rows, tests, tree), "; "))
		})
	}
}

func TestARowIsReadFromATestsName(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{
		"a_test.go": {Data: []byte("package p\nfunc TestR60BlockUpsert(t *testing.T) {}\nfunc TestR7(t *testing.T) {}\nfunc TestR61_Delta(t *testing.T) {}\n" +
			"// func TestR1Comment(t *testing.T) {}\nfunc TestRun5(t *testing.T) {}\nfunc TestR12ands(t *testing.T) {}\nfunc FuzzR13(f *testing.F) {}\n" +
			"func TestR14(b *testing.B) {}\nfunc (s *suite) TestR15(t *testing.T) {}")},
		"a.go":               {Data: []byte("package p\nfunc TestR16(t *testing.T) {}")},
		"testdata/b_test.go": {Data: []byte("no Go")},
		".agents/c_test.go":  {Data: []byte("no Go")},
	}
	tests, err := Tests(tree)
	require.NoError(t, err)
	var names []string
	for _, of := range tests {
		names = append(names, of.Name)
	}
	require.Equal(t, []string{"TestR7", "TestR60BlockUpsert", "TestR61_Delta"}, names)
}

func TestWhatAsserts(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		`require.True(t, x)`:     true,
		`assert.True(t, x)`:      true,
		`if x { t.Fatalf("x") }`: true,
		`for range x { t.Run("x", func(t *testing.T) { t.Error() }) }`: true,
		`t.Run("x", func(s *testing.T) { requireSame(s, x) })`:         true,
		`requireSame(t, x)`:    true,
		`w.same(t, x)`:         true,
		``:                     false,
		`t.Parallel()`:         false,
		`t.Log(x)`:             false,
		`w := start(t); _ = w`: false,
		`t.Run("x", func(t *testing.T) { t.Parallel() })`: false,
		`x.Error()`: false,
	} {
		tests, err := testsOf("a_test.go", []byte("package p\nfunc TestR1(t *testing.T) {"+body+"}"))
		require.NoError(t, err, body)
		require.Len(t, tests, 1, body)
		require.Equal(t, want, tests[0].Asserts, body)
	}
}

func TestBadRowsAreNamed(t *testing.T) {
	t.Parallel()
	const row = `{"row":1,"group":"g","name":"n","text":"t",`
	for data, want := range map[string]string{
		`[` + row + `"status":"done"}]`:                                 "",
		`[` + row + `"status":"nearly"}]`:                               "row 1: status \"nearly\", not one of",
		`[` + row + `"status":"part"}]`:                                 "row 1: is in part and does not say what is missing",
		`[` + row + `"status":"done","missing":"x"}]`:                   "row 1: misses something and is neither in part nor open",
		`[` + row + `"status":"decision"}]`:                             "row 1: the status decision and a decision belong together",
		`[` + row + `"status":"done","test":"x"}]`:                      "unknown field",
		`[{"row":2,"group":"g","name":"n","text":"t","status":"done"}]`: "row 2 is where row 1 is expected",
		`[{"row":1,"group":"g","name":"n","text":"","status":"done"}]`:  "row 1: group, name and text are required",
	} {
		_, err := parse([]byte(data))
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want, data)
	}
}
