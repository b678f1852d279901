#!/bin/sh
# Makes sure of a namespace. Arguments: its name, and how long it keeps closed
# workflows. TEMPORAL_ADDRESS is read by the temporal command itself.
set -eu

name=$1
retention=$2

tries=0
until temporal operator cluster health; do
	tries=$((tries + 1))
	if [ "$tries" -ge 30 ]; then
		echo "namespace: Temporal at $TEMPORAL_ADDRESS does not serve" >&2
		exit 1
	fi
	sleep 1
done
temporal operator namespace describe --namespace "$name" >/dev/null 2>&1 ||
	temporal operator namespace create --namespace "$name" --retention "$retention"
