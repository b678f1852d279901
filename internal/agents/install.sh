#!/bin/sh
# Installs the pinned agent command lines into <repository>/.agents and checks
# that each answers with its pinned version. Run again, it does nothing unless
# the pins have changed. Arguments: none.
#
# .agents/bin holds one link per agent to the program that does the work: a
# launcher between it and whoever starts it would take the signals that are
# meant for the agent. Beside them lies rg, which agents expect on the PATH.
#
# npm's install scripts stay off: what the packages need at run time comes as
# an optional dependency for this platform, and a script run at install time
# is code that nobody pinned.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
target=$(CDPATH= cd -- "$here/../.." && pwd)/.agents
modules=$target/node_modules

# agents lists name, package, and where in node_modules the program may lie.
agents() {
	cat <<'END'
claude @anthropic-ai/claude-code @anthropic-ai/claude-code-*/claude
codex @openai/codex @openai/codex-*/vendor/*/bin/codex
gemini @google/gemini-cli @google/gemini-cli/bundle/gemini.js
opencode opencode-ai opencode-*/bin/opencode
END
}

ripgrep='@openai/codex-*/vendor/*/codex-path/rg'

fail() {
	printf 'agents: %s\n' "$1" >&2
	printf 'hint: %s\n' "$2" >&2
	exit 1
}

# pinned says the version of a package that package.json wants.
pinned() {
	sed -n "s|.*\"$1\": \"\([^\"]*\)\".*|\1|p" "$here/package.json"
}

summary() {
	agents | {
		list=
		while read -r name package _; do
			list="$list${list:+, }$name $(pinned "$package")"
		done
		printf '%s' "$list"
	}
}

# installed is true when the lock file that was last installed to the end is
# the one of the repository: the stamp is written after the check.
installed() {
	[ "$(cat "$here/package-lock.json")" = "$(cat "$target/installed-lock.json" 2>/dev/null)" ] || return 1
	agents | while read -r name _; do
		[ -e "$target/bin/$name" ] || exit 1
	done
}

install() {
	command -v npm >/dev/null 2>&1 ||
		fail "npm is not installed" "install Node.js 20 or newer, which brings npm"
	mkdir -p "$target"
	rm -rf "$target/installed-lock.json" "$target/bin"
	cp "$here/package.json" "$here/package-lock.json" "$target/"
	(cd "$target" && npm ci --ignore-scripts --no-audit --no-fund --no-progress \
		--loglevel=error </dev/null >npm.log 2>&1) || {
		tail -n 20 "$target/npm.log" >&2
		fail "npm ci failed in .agents" "see .agents/npm.log; is the npm registry reachable?"
	}
	mkdir -p "$target/bin"
}

# version asks a program in a home of its own, as some leave files there.
version() {
	HOME=$target/home "$1" --version </dev/null 2>&1
}

# link_agent NAME VERSION PATTERN links the first program that answers with the
# version: a package may come in variants of which the machine runs only some.
link_agent() {
	answer=
	for program in "$modules"/$3; do
		[ -x "$program" ] || continue
		said=$(version "$program") || continue
		answer=$said
		case " $answer " in
		*" $2 "*)
			ln -s "../${program#"$target"/}" "$target/bin/$1"
			link_launcher "$1" "$program"
			return
			;;
		esac
	done
	[ -z "$answer" ] || fail "$1 --version says \"$answer\", pinned is $2" "remove .agents and run again"
	fail "no program of $1 $2 runs here" "npm installs it as an optional dependency; is this platform in package-lock.json?"
}

# link_launcher replaces npm's launcher where it is a mere placeholder, which
# an install script would have replaced.
link_launcher() {
	launcher=$modules/.bin/$1
	version "$launcher" >/dev/null || ln -sf "../${2#"$modules"/}" "$launcher"
}

link_all() {
	mkdir -p "$target/home"
	agents | while read -r name package pattern; do
		link_agent "$name" "$(pinned "$package")" "$pattern"
	done || exit 1
	rm -rf "$target/home"
	for program in "$modules"/$ripgrep; do
		[ ! -x "$program" ] || ln -sf "../${program#"$target"/}" "$target/bin/rg"
	done
	[ -x "$target/bin/rg" ] || fail "no rg came with the agents" "is this platform in package-lock.json?"
}

if installed; then
	printf 'agents: %s are in .agents already\n' "$(summary)"
	exit 0
fi
printf 'agents: installing %s into .agents (npm ci)\n' "$(summary)"
install
link_all
cp "$here/package-lock.json" "$target/installed-lock.json"
