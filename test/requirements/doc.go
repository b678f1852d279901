// Package requirements holds what Sojourn is required to do, row by row, and
// keeps each row's status honest: what is done has a test that is named after
// the row and can fail.
//
// rows.json is the source of sentences and statuses; the tests are found in the
// code, by their names: TestR60BlockUpsert is a test of row 60. Both together
// are docs/requirements.md, which go generate writes.
package requirements

//go:generate go run ./cmd/requirements --write
