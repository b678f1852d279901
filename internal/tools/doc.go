// Package tools is a separate module for tools that check the repository and are
// too heavy to be required by importers of Sojourn: staticcheck, workflowcheck,
// gocyclo and the compose specification's loader. Its go.mod pins them.
//
//	internal/tools/check.sh          every check, one line each
//	internal/tools/check.sh --list   their names
//	internal/tools/check.sh vet      those with that prefix
//
// A tool by itself runs from the cache, without being installed:
//
//	$(go -C internal/tools tool -n staticcheck) ./...
//
// Its tests prove that workflowcheck sees the faults planted in
// workflows/testdata/bad, and that docker-compose.yml is sound as far as can be
// checked without an engine.
package tools
