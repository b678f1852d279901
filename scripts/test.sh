#!/usr/bin/env bash
# Every test but those of faults (scripts/faults.sh), with -race. The servers run
# as processes of their own, without -race; the worker that the end-to-end tests
# start is built with it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/testenv.sh

# The end-to-end tests have the machine to themselves, so that their waits are
# for the product and not for compilers.
mapfile -t units < <(go list ./... | grep -v '/internal/e2e$')
echo "test: packages"
go test -race -timeout 30m "${units[@]}"
echo "test: devstack and tools"
go -C devstack test -race -timeout 5m ./internal/...
go -C internal/tools test -timeout 5m ./...
echo "test: end to end"
go test -race -timeout 20m ./internal/e2e -skip "$FAULTS"
