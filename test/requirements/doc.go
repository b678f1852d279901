// Package requirements has the requirements of Sojourn, row by row, and checks each
// row's status: a row that is done has a test that is named after it and can fail.
//
// rows.json is the source of sentences and statuses. The tests are found in the code,
// by their names: TestR60BlockUpsert is a test of row 60. go generate writes
// docs/requirements.md from both.
package requirements

//go:generate go run ./cmd/requirements --write
