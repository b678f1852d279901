#!/bin/sh
# Makes the token that NATS asks its clients for, as a settings file
# NATS_TOKEN='…'. One that is there stays.
#
#   deploy/nats/token.sh FILE
set -eu

file=$1
if [ -s "$file" ]; then
	exit 0
fi
# The worker's user in its container is another than this one.
umask 022
token=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
echo "NATS_TOKEN='token-$token'" >"$file.new"
mv "$file.new" "$file"
