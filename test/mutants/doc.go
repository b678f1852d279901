// Package mutants shows that the tests of the requirements can fail. Its table,
// mutants.txt, has for a row of the requirements one change of the product in
// one line, and a test of that row that turns red with it.
//
// No file of the tree is changed: a mutant is built by Go's -overlay, the test's
// package and, for end-to-end tests, the programs that contain the change. Red
// is a test that ran and failed by an assertion; a build that fails, a panic and
// a timeout of the test program are none.
package mutants
