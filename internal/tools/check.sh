#!/bin/sh
# Every check of the repository that is not a test of its own, one line each:
# what it is, how it went, how long it took. A check that fails prints what it
# found. Needs go, and the Go module proxy for what is not in the cache.
#
#   internal/tools/check.sh            all
#   internal/tools/check.sh vet tidy   those whose names begin so
#   internal/tools/check.sh --list     the names
#
# Exit codes: 0 all is well, 1 a check failed, 2 wrong usage.
set -u

root=$(CDPATH= cd -- "$(dirname -- "$0")/../.." && pwd)
cd "$root" || exit 1
export GOTOOLCHAIN="${GOTOOLCHAIN:-local}" GOFLAGS="${GOFLAGS:--buildvcs=false}"
bin=$root/bin/tools
log=$(mktemp "${TMPDIR:-/tmp}/sojourn-check.XXXXXX")
before=$log.before
after=$log.after
trap 'rm -f "$log" "$before" "$after"' EXIT
trap 'exit 1' INT TERM

modules='. devstack internal/tools'

# portable are the packages that build on systems without sandboxes of their own.
portable='./session/... ./event/... ./reducer/... ./adapters/... ./archive/... ./starter/...'

gofmt_all() {
	unformatted=$(find . \( -name .git -o -name .agents -o -name .dev -o -name bin -o -name node_modules \) -prune \
		-o -name '*.go' -exec gofmt -l {} +) || return 1
	[ -z "$unformatted" ] || { echo "not formatted, run gofmt -w:"; echo "$unformatted"; return 1; }
}

vet() { go -C "$1" vet ./...; }

build_tools() { mkdir -p "$bin" && go -C internal/tools build -o "$bin/" tool ./size; }

staticcheck() { (cd "$1" && "$bin/staticcheck" ./...); }

workflowcheck() { "$bin/workflowcheck" -test=false -config workflowcheck.config.yaml ./workflows/... ./jobs ./batch ./schedules; }

planted() { go -C internal/tools test -count=1 -run 'Workflowcheck' .; }

tidy() { go -C "$1" mod tidy -diff; }

portable() { GOOS=$1 CGO_ENABLED=0 go vet $portable; }

# size has the limits of length and complexity; its figures are always shown.
size() { "$bin/size"; }

layering() { go test -count=1 ./test/layering; }

requirements() { go run ./test/requirements/cmd/requirements; }

mutants() { go run ./test/mutants/cmd/mutants --check; }

deployment() { go -C internal/tools test -count=1 -run 'Compose|Temporal|Configuration|Unit' .; }

# sums are the checksums of all that go generate may have written.
sums() {
	find . \( -name .git -o -name .agents -o -name .dev -o -name bin -o -name node_modules \) -prune \
		-o -type f \( -path './docs/*' -o -path './clients/*' -o -name '*.md' -o -name '*.go' \) -exec cksum {} + | sort
}

generated() {
	grep -rq --include='*.go' '^//go:generate ' . || { echo "nothing is generated"; return 0; }
	sums >"$before"
	for m in $modules; do
		go -C "$m" generate ./... || return 1
	done
	sums >"$after"
	cmp -s "$before" "$after" || { echo "go generate changed files, commit them:"; diff "$before" "$after" | sed -n 's/^> [0-9]* [0-9]* /  /p'; return 1; }
}

# A check is a line: its name, and the command.
checks() {
	cat <<-END
		gofmt|gofmt_all
		vet|vet .
		vet devstack|vet devstack
		vet tools|vet internal/tools
		build tools|build_tools
		staticcheck|staticcheck .
		staticcheck tools|staticcheck internal/tools
		staticcheck devstack|staticcheck devstack
		workflowcheck|workflowcheck
		planted faults|planted
		size|size
		layering|layering
		requirements|requirements
		mutants|mutants
		deployment|deployment
		tidy|tidy .
		tidy devstack|tidy devstack
		tidy tools|tidy internal/tools
		portable darwin|portable darwin
		portable windows|portable windows
		generated|generated
	END
}

wanted() { # name, prefixes...
	name=$1
	shift
	[ "$#" -gt 0 ] || return 0
	for prefix; do
		case $name in "$prefix"*) return 0 ;; esac
	done
	return 1
}

if [ "${1:-}" = --list ]; then
	checks | cut -d'|' -f1
	exit
fi

ran=0
failed=
begun=$(date +%s)
while IFS='|' read -r name run; do
	# The tools are needed by what comes after, whichever that is.
	[ "$name" = "build tools" ] || wanted "$name" "$@" || continue
	began=$(date +%s)
	if (eval "$run") >"$log" 2>&1 </dev/null; then
		result=ok
	else
		result=FAILED
		failed="$failed, $name"
	fi
	printf '%-22s %-6s %4d s\n' "$name" "$result" "$(($(date +%s) - began))"
	[ "$result" = ok ] && [ "$name" != size ] || sed 's/^/    /' "$log"
	ran=$((ran + 1))
done <<END
$(checks)
END
if [ "$#" -gt 0 ] && [ "$ran" -le 1 ]; then
	echo "check: no check begins with: $*; --list names them" >&2
	exit 2
fi
if [ -n "$failed" ]; then
	printf 'check: %d checks in %d s; failed: %s\n' "$ran" "$(($(date +%s) - begun))" "${failed#, }" >&2
	exit 1
fi
printf 'check: %d checks in %d s, all well\n' "$ran" "$(($(date +%s) - begun))"
