#!/usr/bin/env bash
# The tests, and what became of each.
#
#   scripts/test.sh           all there are (make test-all): with -race where there
#                             is concurrency, every conformance scenario, the
#                             faults, fuzzing
#   scripts/test.sh --short   less what a test itself leaves out of a short run, and
#                             without -race (make test)
#
# SOJOURN_TEST_STRICT=1 makes a failure of what is skipped for something missing.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in
  --short) SHORT=yes ;;
  '') SHORT= ;;
  *) echo "test: unknown argument $1; there is --short" >&2; exit 2 ;;
esac
. scripts/testenv.sh
[ -n "$SHORT" ] || race_worker

# Nothing in these starts a goroutine (but workspace, see below), and -race makes
# their loops over bytes and lines three to eight times as long. That workers may
# share an adapter is shown end to end, by workers that are built with -race and
# have all agents at once.
PURE='/(effects|event|limits|permission|reducer|turn|steering|session/fork|workflows/details|event/.*|limits/.*|reducer/.*|turn/.*|internal/(agents|settings)|runner/internal/(spool|wire|query)|starter/internal/render|test/(executable|layering|parity|requirements|synth|testreport)|workspace)$'
ADAPTERS='/adapters(/.*)?$'
# What workspace does at once, it does in these, which have -race too.
PACKING='^TestWorkspace(Randomly|BearsFaults)|^TestSwapsDuringASync'
# Tens of megabytes, or hundreds of turns, through code that other tests run with -race,
# under which these take up to ten times as long.
LARGE='^Test(HTTPHugeEventAndResponse|A64MegabyteLinePasses|HugeEvent|PagesKeepTheHeadSmall|ReduceTakesLongLines|RecordLongLine|TurnsAreLinearFor.*)$'
LARGE_IN='./runner ./runner/internal/cli ./stream ./archive ./starter ./activities'
# The packages that take minutes come first, so that none of them is the last, alone.
LONG='/(runner|test/modelsim|adapters/(acp|gemini|opencode))$'
mapfile -t packages < <(go list ./... | grep -E "$LONG"; go list ./... | grep -vE "$LONG")
mapfile -t pure < <(printf '%s\n' "${packages[@]}" | grep -E "$PURE")
# A package that starts goroutines by now needs -race.
if started=$(printf '%s\n' "${pure[@]}" | grep -v '/workspace$' | xargs go list -f '{{.Dir}}' | xargs -I{} find {} -maxdepth 1 -name '*.go' |
  xargs grep -lE '^\s*go |\.Go\(') && [ -n "$started" ]; then
  echo "test: PURE in scripts/test.sh has packages that start goroutines: $started" >&2
  exit 1
fi
mapfile -t adapters < <(printf '%s\n' "${packages[@]}" | grep -E "$ADAPTERS")
mapfile -t others < <(printf '%s\n' "${packages[@]}" | grep -vE "$PURE|$ADAPTERS|/test/e2e$")

# tests MODULE ARGUMENTS… runs go test there and goes on when tests fail: the
# report judges. Without vet, which make check runs.
tests() { go -C "$1" test -json -vet=off "${@:2}" || failed=1; }

# What fails quickly comes first. The end-to-end tests, those of faults among
# them, have the machine to themselves, so that their waits are for the product
# and not for compilers. Their workers are built with -race. Their own process is
# not, which took a processor to look and compare: what it has of the product,
# clients and readers, has tests with -race in its packages, and make nightly has
# both. Most of their time they wait, for leases and for hosts to be given up, so
# several run at a time.
all() {
  local failed=0
  echo "test: packages"
  tests . -timeout 10m "${pure[@]}"
  tests . -race -timeout 20m -skip "$LARGE" "${others[@]}"
  # shellcheck disable=SC2086 # a list
  tests . -timeout 10m -run "$LARGE" $LARGE_IN
  tests . -race -timeout 5m -run "$PACKING" ./workspace
  tests devstack -race -timeout 5m ./internal/...
  tests internal/tools -timeout 5m ./...
  echo "test: agents"
  tests . -timeout 20m "${adapters[@]}"
  scripts/fuzz.sh || failed=1
  echo "test: end to end"
  # Never from go's cache, for which it would note millions of files, and check them.
  tests . -count=1 -parallel "$(at_once)" -timeout 60m ./test/e2e
  return $failed
}

# at_once is how many end-to-end tests run at a time: five, and three where a process
# takes more than 1.5 ms to start, as on machines whose memory is virtualised in software:
# their servers did not always answer three in time.
at_once() {
  local began=$EPOCHREALTIME ended
  for _ in {1..200}; do /bin/true; done
  ended=$EPOCHREALTIME
  if ((${ended/[.,]/} - ${began/[.,]/} < 200 * 1500)); then echo 5; else echo 3; fi
}

# A short run is one for people, who wait: the end-to-end tests, which wait more
# than they compute, come first and run beside the packages, one at a time, and
# beside the other modules' tests, which are printed at the end. The linker,
# the stack, workers and tests are processes that are gone soon: they may collect their
# garbage later than by default. make test-all has the default.
short() {
  export GOGC=400
  local failed=0 modules
  modules=$(mktemp "${TMPDIR:-/tmp}/sojourn-test.XXXXXX")
  echo "test: every package, those end to end first"
  other_modules >"$modules" &
  tests . -short -p 2 -parallel 4 -timeout 20m ./test/e2e "${adapters[@]}" "${others[@]}" "${pure[@]}"
  echo "test: devstack and tools"
  wait $! || failed=1
  cat "$modules"
  rm -f "$modules"
  return $failed
}

other_modules() {
  local failed=0
  tests devstack -short -timeout 5m ./internal/...
  tests internal/tools -short -timeout 5m ./...
  return $failed
}

go build -o bin/testreport ./test/testreport
if [ -n "$SHORT" ]; then short; else all; fi | bin/testreport
