#!/usr/bin/env bash
# Fuzzing: every target of every decoder, SECONDS_IN_ALL (default 60) shared among
# them, or SECONDS_EACH for each.
set -euo pipefail
cd "$(dirname "$0")/.."

# PACKAGE TARGET for each.
targets() {
  grep -r --include='*_test.go' --exclude-dir=node_modules -o '^func Fuzz[A-Za-z0-9_]*' . |
    sed -E 's|^(.*)/[^/]*:func (Fuzz.*)$|\1 \2|' | sort -u
}

mapfile -t all < <(targets)
each=${SECONDS_EACH:-$(((${SECONDS_IN_ALL:-60} + ${#all[@]} - 1) / ${#all[@]}))}
echo "fuzz: ${#all[@]} targets, $each s each"
binaries=$(mktemp -d "${TMPDIR:-/tmp}/sojourn-fuzz-XXXXXX")
trap 'rm -rf "$binaries"' EXIT
cache=$(go env GOCACHE)/fuzz/$(go list -m)
export each binaries cache

binary() { printf '%s/%s.test' "$binaries" "$(tr / - <<<"$1")"; }

# run PACKAGE TARGET: what the run said. Go's engine calls it a failure,
# too, when its time is over in the middle of an input; no input is written then.
run() {
  local said
  said=$(cd "$1" && "$(binary "$1")" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "${each}s" -test.parallel 1 \
    -test.fuzzcachedir "$cache/${1#./}" </dev/null 2>&1) && { printf '%s\n' "$said"; return; }
  printf '%s\n' "$said"
  grep -q 'context deadline exceeded' <<<"$said" && ! grep -q 'Failing input written' <<<"$said"
}

fuzz() {
  local said
  said=$(run "$1" "$2") || {
    printf '%s\n' "$said"
    echo "fuzz: $2 in $1 found something; what it found lies in its testdata/fuzz" >&2
    return 255 # and no further target
  }
  printf 'fuzz: %-55s %s\n' "$1 $2" "$(grep -o 'execs: [0-9]*' <<<"$said" | tail -1)"
}
export -f binary run fuzz

# A package is linked once for all of its targets. Of these, one runs on each processor:
# half of a short run is the engine's start.
for package in $(printf '%s\n' "${all[@]}" | cut -d ' ' -f 1 | sort -u); do
  go test -c -vet=off -fuzz=. -o "$(binary "$package")" "$package"
done
printf '%s\n' "${all[@]}" | xargs -P "$(nproc)" -L 1 bash -c 'fuzz "$@"' fuzz
echo "fuzz: nothing found"
