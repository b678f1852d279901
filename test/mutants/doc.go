// Package mutants proves that the tests of the requirements can fail. Its table,
// mutants.txt, has for a row of the requirements a change of the product in one line,
// and a test of that row that turns red with it.
//
// No file of the tree is changed: a mutant is built with Go's -overlay, the test's
// package and, for end-to-end tests, the programs that contain the change. Red is a
// test that ran and failed by an assertion. A build that fails, a panic and a timeout
// of the test program don't count as red.
package mutants
