#!/bin/sh
# Installs the pinned browser driver into this folder's node_modules. Run
# again, it does nothing unless the pin has changed. Arguments: none.
#
# The driver brings no browser: it drives the system's Chromium (Debian:
# apt-get install chromium), or the one that SOJOURN_CHROMIUM names.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
stamp=$here/node_modules/.installed-lock.json

fail() {
	printf 'webui: %s\n' "$1" >&2
	printf 'hint: %s\n' "$2" >&2
	exit 1
}

pinned() {
	sed -n 's|.*"playwright-core": "\([^"]*\)".*|\1|p' "$here/package.json"
}

browser() {
	command -v "${SOJOURN_CHROMIUM:-chromium}" >/dev/null 2>&1 ||
		printf 'webui: no Chromium here; the tests of the Web UI are skipped until there is one (apt-get install chromium)\n'
}

if [ "$(cat "$here/package-lock.json")" = "$(cat "$stamp" 2>/dev/null)" ]; then
	printf 'webui: playwright-core %s is installed already\n' "$(pinned)"
	browser
	exit 0
fi
command -v npm >/dev/null 2>&1 ||
	fail "npm is not installed" "install Node.js 20 or newer, which brings npm"
printf 'webui: installing playwright-core %s into test/webui/node_modules (npm ci)\n' "$(pinned)"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
(cd "$here" && npm ci --ignore-scripts --no-audit --no-fund --no-progress --loglevel=error </dev/null >"$log" 2>&1) || {
	tail -n 20 "$log" >&2
	fail "npm ci failed in test/webui" "is the npm registry reachable?"
}
cp "$here/package-lock.json" "$stamp"
browser
