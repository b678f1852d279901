#!/bin/sh
# Packs the recordings of a folder, one archive per agent, and writes their
# checksums. To add a recording: unpack all archives into an empty folder, put
# the new one beside the others, and pack that folder.
#
#   test/recordings/pack.sh FOLDER    FOLDER has claude/, codex/, gemini/, opencode/
set -eu

[ "$#" = 1 ] && [ -d "$1" ] || { sed -n '2,6s/^# *//p' "$0" >&2; exit 2; }
from=$(CDPATH= cd -- "$1" && pwd)
cd "$(dirname -- "$0")/testdata"
rm -f ./*.tar.gz
for agent in "$from"/*/; do
	agent=$(basename "$agent")
	tar -C "$from" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=go=,u=rwX -cf - "$agent" |
		gzip -9n >"$agent.tar.gz"
done
# What tests have unpacked is named after the checksums: it is stale now.
rm -rf ../../../bin/recordings-*
sha256sum ./*.tar.gz | sed 's, \./, ,' >SHA256SUMS
