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
# A package is linked once for all of its targets.
binaries=$(mktemp -d "${TMPDIR:-/tmp}/sojourn-fuzz-XXXXXX")
trap 'rm -rf "$binaries"' EXIT
cache=$(go env GOCACHE)/fuzz

# run BINARY TARGET PACKAGE: what the run said. Go's engine calls it a failure,
# too, when its time is over in the middle of an input; no input is written then.
run() {
  local said
  said=$(cd "$3" && "$1" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "${each}s" \
    -test.fuzzcachedir "$cache/$(go list .)" </dev/null 2>&1) && { printf '%s\n' "$said"; return; }
  printf '%s\n' "$said"
  grep -q 'context deadline exceeded' <<<"$said" && ! grep -q 'Failing input written' <<<"$said"
}

for pair in "${all[@]}"; do
  read -r package target <<<"$pair"
  binary=$binaries/$(tr / - <<<"$package").test
  [ -e "$binary" ] || go test -c -vet=off -fuzz=. -o "$binary" "$package"
  said=$(run "$binary" "$target" "$package") || {
    printf '%s\n' "$said"
    echo "fuzz: $target in $package found something; what it found lies in its testdata/fuzz" >&2
    exit 1
  }
  printf 'fuzz: %-55s %s\n' "$package $target" "$(grep -o 'execs: [0-9]*' <<<"$said" | tail -1)"
done
echo "fuzz: nothing found"
