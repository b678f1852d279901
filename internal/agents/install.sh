#!/bin/sh
# Installs the pinned agent command lines into <repository>/.agents and checks
# that each answers with its pinned version. Run again, it does nothing unless
# the pins have changed. Arguments: none.
#
# npm's install scripts stay off: what the packages need at run time comes as
# an optional dependency for this platform, and a script run at install time
# is code that nobody pinned.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
target=$(CDPATH= cd -- "$here/../.." && pwd)/.agents
claude=$target/node_modules/.bin/claude

fail() {
	printf 'agents: %s\n' "$1" >&2
	printf 'hint: %s\n' "$2" >&2
	exit 1
}

# installed is true when the lock file that was last installed to the end is
# the one of the repository: the stamp is written after the check.
installed() {
	[ "$(cat "$here/package-lock.json")" = "$(cat "$target/installed-lock.json" 2>/dev/null)" ] && [ -e "$claude" ]
}

pinned() {
	sed -n 's|.*"@anthropic-ai/claude-code": "\([^"]*\)".*|\1|p' "$here/package.json"
}

install() {
	command -v npm >/dev/null 2>&1 ||
		fail "npm is not installed" "install Node.js 20 or newer, which brings npm"
	mkdir -p "$target"
	rm -f "$target/installed-lock.json"
	cp "$here/package.json" "$here/package-lock.json" "$target/"
	(cd "$target" && npm ci --ignore-scripts --no-audit --no-fund --no-progress \
		--loglevel=error </dev/null >npm.log 2>&1) || {
		tail -n 20 "$target/npm.log" >&2
		fail "npm ci failed in .agents" "see .agents/npm.log; is the npm registry reachable?"
	}
	# With the scripts off, the launcher is still the package's placeholder on
	# some platforms; the native program lies beside it under its own name.
	"$claude" --version </dev/null >/dev/null 2>&1 || link_native
}

link_native() {
	for native in "$target"/node_modules/@anthropic-ai/claude-code-*/claude; do
		[ -x "$native" ] && ln -sf "../${native#"$target"/node_modules/}" "$claude" && return
	done
	fail "no native program came with @anthropic-ai/claude-code" \
		"is this platform supported? npm installs it as an optional dependency"
}

check() {
	want=$(pinned)
	answer=$("$claude" --version </dev/null 2>&1) || fail "claude --version failed: $answer" "remove .agents and run again"
	case $answer in
	"$want "*) ;;
	*) fail "claude --version says \"$answer\", pinned is $want" "remove .agents and run again" ;;
	esac
}

if installed; then
	printf 'agents: claude %s is in .agents already\n' "$(pinned)"
	exit 0
fi
printf 'agents: installing claude %s into .agents (npm ci)\n' "$(pinned)"
install
check
cp "$here/package-lock.json" "$target/installed-lock.json"
