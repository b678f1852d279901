# Sourced by the scripts that run tests, from the repository's root: programs,
# and which end-to-end tests are those of faults.
export SOJOURN_BIN=$PWD/bin SOJOURN_DEVSTACK_BIN=$PWD/bin/sojourn-devstack SOJOURN_RUNNER_BIN=$PWD/bin/sojourn-runner
export PATH=$PWD/bin:$PWD/.agents/bin:$PATH
FAULTS='^Test(Kill|SplitBrain|Outage|Buttons|NothingLeft|Full|Damage|AgentCant)'

# race_worker has the end-to-end tests start a worker that is built with -race.
race_worker() {
  echo "test: a worker with -race"
  mkdir -p bin/race
  go build -race -o bin/race/sojourn-worker ./cmd/sojourn-worker
  # A worker takes the runner that lies beside it.
  ln -sf ../sojourn-runner bin/race/sojourn-runner
  export SOJOURN_WORKER_BIN=$PWD/bin/race/sojourn-worker
}
