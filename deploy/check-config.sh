#!/bin/sh
# Starts the servers of docker-compose.yml as plain processes, in the same
# versions and with the same configuration files, and lets sojourn setup and a
# worker run against them. For machines without a container engine, and for CI.
#
#   deploy/check-config.sh [nats] [s3] [temporal] [worker]      default: all
#
# The servers are built from the Go module proxy, once, into bin/servers: NATS
# and the S3 gateway take a minute, Temporal takes five on two cores. Temporal
# needs Postgres (initdb and postgres); where that is missing it is skipped, and
# the reason said. Everything listens on loopback, on free ports, and keeps what
# it has in a temporary folder that goes away. Needs go and curl.
# Exit codes: 0 all that ran is well, 1 something is not.
set -eu

temporal_version=v1.32.1
nats_version=v2.15.0
versitygw_version=v1.8.0

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
root=$(dirname "$here")
bin=$root/bin/servers
work=$(mktemp -d "${TMPDIR:-/tmp}/sojourn-config.XXXXXX")
chmod 755 "$work"
pids=
failed=
patience=60

say() { printf '%-10s %s\n' "$1" "$2"; }

fail() { # part, what is wrong, log
	say "$1" "FAILED: $2"
	[ -z "${3:-}" ] || tail -n 20 "$3" | cut -c 1-300 | sed 's/^/           | /'
	failed="$failed $1"
	return 1
}

# Only what this script started is ended, the last first, and waited for.
finish() {
	trap - EXIT INT TERM
	for pid in $pids; do
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	rm -rf "$work"
}
trap finish EXIT
trap 'finish; exit 1' INT TERM

# free_port prints a port that nobody listens on, another one at each call.
free_port() {
	next=$(cat "$work/port" 2>/dev/null || echo $((20000 + $$ % 8000)))
	while hex=$(printf '%04X' "$next"); cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q ":$hex .* 0A "; do
		next=$((next + 1))
	done
	echo $((next + 1)) >"$work/port"
	echo "$next"
}

install() { # program, its version, package, name of what go install makes
	kept=$bin/$1-$2
	if [ ! -x "$kept" ]; then
		say "$1" "building $2"
		mkdir -p "$bin/new"
		GOBIN=$bin/new GOFLAGS=-mod=mod CGO_ENABLED=0 go install "$3@$2" >"$work/install.log" 2>&1 ||
			{ fail "$1" "go install $3@$2" "$work/install.log"; return 1; }
		mv "$bin/new/$4" "$kept"
	fi
	mkdir -p "$work/bin"
	ln -sf "$kept" "$work/bin/$1"
}

start() { # log, command...
	: >"$1"
	log=$1
	shift
	"$@" >>"$log" 2>&1 </dev/null &
	pid=$!
	pids="$pid $pids"
}

# answers waits until a URL gives what matches; it stops early when the process
# has ended.
answers() { # pid, url, pattern
	tries=0
	until curl -s -m 2 "$2" 2>/dev/null | grep -q "$3"; do
		tries=$((tries + 1))
		kill -0 "$1" 2>/dev/null && [ "$tries" -lt $((patience * 5)) ] || return 1
		sleep 0.2
	done
}

check_nats() {
	install nats-server "$nats_version" github.com/nats-io/nats-server/v2 nats-server || return 1
	nats_port=$(free_port)
	http=$(free_port)
	"$here/nats/token.sh" "$work/nats.env"
	. "$work/nats.env"
	start "$work/nats.log" env NATS_STORE_DIR="$work/nats" NATS_TOKEN="$NATS_TOKEN" "$work/bin/nats-server" --config "$here/nats/nats.conf" \
		--addr 127.0.0.1 --port "$nats_port" --http_port "$http"
	answers "$pid" "http://127.0.0.1:$http/healthz?js-enabled-only=true" '"ok"' ||
		{ fail nats "is not healthy" "$work/nats.log"; return 1; }
	answers "$pid" "http://127.0.0.1:$http/jsz" '"sync_interval": 120000000000' ||
		{ fail nats "does not have the configuration's sync_interval" "$work/nats.log"; return 1; }
	curl -s -m 2 "telnet://127.0.0.1:$nats_port" </dev/null | grep -q '"auth_required":true' ||
		{ fail nats "asks its clients for no token" "$work/nats.log"; return 1; }
	say nats "ok: $nats_version with deploy/nats/nats.conf, JetStream is on, and clients need a token"
}

check_s3() {
	install versitygw "$versitygw_version" github.com/versity/versitygw/cmd/versitygw versitygw || return 1
	s3_port=$(free_port)
	mkdir -p "$work/objects" "$work/metadata"
	start "$work/s3.log" env ROOT_ACCESS_KEY_ID=sojourn ROOT_SECRET_ACCESS_KEY=sojourn-local-only \
		VGW_REGION=us-east-1 VGW_PORT="127.0.0.1:$s3_port" VGW_MAX_CONNECTIONS=4096 VGW_MAX_REQUESTS=1024 \
		VGW_KEEP_ALIVE=true VGW_QUIET=true VGW_HEALTH=/health \
		"$work/bin/versitygw" posix --sidecar "$work/metadata" "$work/objects"
	answers "$pid" "http://127.0.0.1:$s3_port/health" OK ||
		{ fail s3 "is not healthy" "$work/s3.log"; return 1; }
	say s3 "ok: versitygw $versitygw_version with the settings of docker-compose.yml"
}

# Postgres refuses to run as root.
unprivileged=
[ "$(id -u)" != 0 ] || unprivileged='setpriv --reuid=nobody --regid=nogroup --clear-groups'

find_postgres() {
	for dir in $(dirname "$(command -v initdb 2>/dev/null || echo /nowhere/initdb)") /usr/lib/postgresql/*/bin; do
		[ -x "$dir/initdb" ] && [ -x "$dir/postgres" ] && echo "$dir" && return
	done
	return 1
}

start_postgres() {
	pg_port=$(free_port)
	mkdir -p "$work/pg"
	echo temporal >"$work/pg-password"
	chmod 644 "$work/pg-password"
	[ -z "$unprivileged" ] || chown nobody:nogroup "$work/pg"
	(cd "$work/pg" && $unprivileged "$1/initdb" --pgdata="$work/pg/data" --username=temporal \
		--pwfile="$work/pg-password" --auth=scram-sha-256 --no-locale --encoding=UTF8) >"$work/pg.log" 2>&1 ||
		{ fail temporal "initdb" "$work/pg.log"; return 1; }
	start "$work/pg.log" $unprivileged "$1/postgres" -D "$work/pg/data" -h 127.0.0.1 -p "$pg_port" -k "$work/pg"
	tries=0
	until grep -q 'ready to accept connections' "$work/pg.log"; do
		tries=$((tries + 1))
		kill -0 "$pid" 2>/dev/null && [ "$tries" -lt $((patience * 5)) ] ||
			{ fail temporal "Postgres does not start" "$work/pg.log"; return 1; }
		sleep 0.2
	done
}

start_temporal() {
	temporal_port=$(free_port)
	temporal_http=$(free_port)
	start "$work/temporal.log" env TEMPORAL_SERVER_CONFIG_FILE_PATH="$here/temporal/server.yaml" \
		DYNAMIC_CONFIG_FILE_PATH="$here/temporal/dynamicconfig.yaml" TEMPORAL_ALLOW_NO_AUTH=true BIND_ON_IP=127.0.0.1 \
		POSTGRES_SEEDS=127.0.0.1 DB_PORT="$pg_port" POSTGRES_USER=temporal POSTGRES_PWD=temporal \
		FRONTEND_GRPC_PORT="$temporal_port" FRONTEND_HTTP_PORT="$temporal_http" \
		FRONTEND_MEMBERSHIP_PORT="$(free_port)" HISTORY_GRPC_PORT="$(free_port)" HISTORY_MEMBERSHIP_PORT="$(free_port)" \
		MATCHING_GRPC_PORT="$(free_port)" MATCHING_MEMBERSHIP_PORT="$(free_port)" \
		WORKER_GRPC_PORT="$(free_port)" WORKER_MEMBERSHIP_PORT="$(free_port)" \
		"$work/bin/temporal-server" start
	answers "$pid" "http://127.0.0.1:$temporal_http/api/v1/cluster-info" '"persistenceStore": *"postgres' ||
		{ fail temporal "does not serve" "$work/temporal.log"; return 1; }
}

# The container does this with the temporal command, deploy/temporal/namespace.sh.
make_namespace() {
	tries=0
	until curl -s -m 5 -X POST "http://127.0.0.1:$temporal_http/api/v1/namespaces" \
		-d '{"namespace": "default", "workflowExecutionRetentionPeriod": "259200s"}' >"$work/namespace.log" 2>&1 &&
		grep -q '^{}\|already' "$work/namespace.log"; do
		tries=$((tries + 1))
		[ "$tries" -lt "$patience" ] || { fail temporal "no namespace can be made" "$work/namespace.log"; return 1; }
		sleep 1
	done
}

check_temporal() {
	postgres=$(find_postgres) || {
		say temporal "skipped: no Postgres here (initdb and postgres; on Debian apt-get install postgresql)"
		return 0
	}
	install temporal-server "$temporal_version" go.temporal.io/server/cmd/server server || return 1
	install temporal-sql-tool "$temporal_version" go.temporal.io/server/cmd/tools/sql sql || return 1
	"$work/bin/temporal-server" validate-dynamic-config "$here/temporal/dynamicconfig.yaml" >"$work/dynamic.log" 2>&1
	! grep -q 'error:\|warning:' "$work/dynamic.log" ||
		{ fail temporal "the dynamic configuration is not as the server knows it" "$work/dynamic.log"; return 1; }
	start_postgres "$postgres" || return 1
	schema=$(GOFLAGS=-mod=mod go mod download -json "go.temporal.io/server@$temporal_version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
	PATH="$work/bin:$PATH" SQL_PLUGIN=postgres12_pgx SQL_HOST=127.0.0.1 SQL_PORT=$pg_port SQL_USER=temporal SQL_PASSWORD=temporal \
		"$here/temporal/schema.sh" "$schema/schema/postgresql/v12" >"$work/schema.log" 2>&1 ||
		{ fail temporal "deploy/temporal/schema.sh" "$work/schema.log"; return 1; }
	start_temporal || return 1
	make_namespace || return 1
	say temporal "ok: $temporal_version with deploy/temporal/*.yaml over $("$postgres/postgres" --version)"
}

# Our own programs against the three, with the settings of docker-compose.yml.
check_worker() {
	if [ -z "${temporal_http:-}" ] || [ -z "${nats_port:-}" ] || [ -z "${s3_port:-}" ]; then
		say worker "skipped: it needs nats, s3 and temporal"
		return 0
	fi
	(cd "$root" && go build -o "$work/bin/" ./runner/cmd/sojourn-runner &&
		go build -o "$work/bin/sojourn-worker" ./cmd/sojourn-worker && go build -o "$work/bin/sojourn" ./cmd/sojourn) >"$work/build.log" 2>&1 ||
		{ fail worker "go build" "$work/build.log"; return 1; }
	export TEMPORAL_ADDRESS="127.0.0.1:$temporal_port" TEMPORAL_NAMESPACE=default NATS_URL="nats://127.0.0.1:$nats_port" NATS_TOKEN="$NATS_TOKEN" \
		AWS_ENDPOINT_URL_S3="http://127.0.0.1:$s3_port" AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID=sojourn \
		AWS_SECRET_ACCESS_KEY=sojourn-local-only SOJOURN_BUCKET=sojourn
	unset SOJOURN_ENV_FILE AWS_PROFILE AWS_SESSION_TOKEN
	"$work/bin/sojourn" setup >"$work/setup.log" 2>&1 </dev/null ||
		{ fail worker "sojourn setup" "$work/setup.log"; return 1; }
	start "$work/worker.log" env PATH="$work/bin:$PATH" "$work/bin/sojourn-worker" supervise --data-dir "$work/worker"
	tries=0
	until grep -q 'is ready' "$work/worker.log"; do
		tries=$((tries + 1))
		kill -0 "$pid" 2>/dev/null && [ "$tries" -lt $((patience * 5)) ] ||
			{ fail worker "is not ready" "$work/worker.log"; return 1; }
		sleep 0.2
	done
	"$work/bin/sojourn-worker" health --data-dir "$work/worker" >>"$work/worker.log" 2>&1 ||
		{ fail worker "is ready, and sojourn-worker health does not see it" "$work/worker.log"; return 1; }
	say worker "ok: sojourn setup made attributes, stream and bucket; the worker is ready and healthy"
}

[ "$#" -gt 0 ] || set -- nats s3 temporal worker
for part; do
	case $part in
	nats | s3 | temporal | worker) ;;
	*)
		echo "check-config: unknown part $part; there are nats, s3, temporal and worker" >&2
		exit 2
		;;
	esac
	"check_$part" || true
done
[ -z "$failed" ] || { echo "check-config: failed:$failed" >&2; exit 1; }
