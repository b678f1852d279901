# Everything here works on a clean clone with Go, Node and npm; `make help`
# lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

BIN := bin
GO ?= go
AGENT ?= claude
MODEL ?= scripted
LOSS ?= worker
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/sojourn-run/sojourn/starter.version=$(VERSION)

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 18

.PHONY: build
build: programs devstack ## build the programs into bin/

.PHONY: programs
programs:
	@mkdir -p $(BIN)
	@echo "build: sojourn, sojourn-worker, sojourn-runner, sojourn-modelsim"
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/sojourn ./cmd/sojourn-worker ./test/modelsim/cmd/sojourn-modelsim
	@CGO_ENABLED=0 $(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/ ./runner/cmd/sojourn-runner

.PHONY: devstack
devstack:
	@mkdir -p $(BIN)
	@echo "build: sojourn-devstack (some minutes the first time)"
	@$(GO) build -C devstack -ldflags '-s -w' -o ../$(BIN)/sojourn-devstack .

.PHONY: agents
agents: ## install the pinned agent programs into .agents/
	@sh internal/agents/install.sh

.PHONY: browser
browser: ## install what drives the Web UI in tests
	@sh test/webui/install.sh

# In a folder of npm's: install what its lock file names, once, and build.
npm = cd $(1) && { [ node_modules/.package-lock.json -nt package-lock.json ] || \
	{ echo "$(1): installing $(2) (npm ci)"; npm ci --ignore-scripts --no-audit --no-fund --no-progress --loglevel=error; }; } && npm run --silent build

.PHONY: examples
examples: ## install and build what examples/ has in other languages
	@$(call npm,examples/typescript,Temporal's TypeScript SDK)

.PHONY: clients
clients: ## install and build the clients of a gateway in other languages, and their example
	@$(call npm,clients/typescript,TypeScript and React)

.PHONY: demo
demo: build agents ## the main job on an embedded stack; ends by itself
	@AGENT=$(AGENT) MODEL=$(MODEL) LOSS=$(LOSS) scripts/demo.sh

.PHONY: demo-tree
demo-tree: build agents ## an agent spawns two others, and the worker is killed meanwhile
	@MODEL=$(MODEL) scripts/demo-tree.sh

.PHONY: dev
dev: build agents ## stack and worker, until Ctrl-C
	@MODEL=$(MODEL) scripts/dev.sh

.PHONY: test
test: build agents browser ## the tests in minutes: every package, each agent once, a kill of each part
	@scripts/test.sh --short

.PHONY: test-all
test-all: build agents browser examples clients ## all tests there are, packages and workers with -race: every scenario, faults, fuzzing
	@scripts/test.sh

.PHONY: check
check: ## formatting, vet, staticcheck, workflowcheck, tidiness, generated files
	@internal/tools/check.sh

ONLY ?=

.PHONY: mutants
mutants: build agents browser clients ## turn each row's test red by a change of the product: ONLY=R41,R42
	@$(GO) run ./test/mutants/cmd/mutants --only '$(ONLY)'

.PHONY: bench
bench: build agents ## the figures of test/bench/, beside their floors
	@scripts/bench.sh

SEED ?= 1
KILLS ?= 500
SESSIONS ?= 40
PART ?= worker,agent,host

.PHONY: chaos
chaos: build agents ## kill random parts under many sessions: SEED, KILLS, SESSIONS, FULL=1
	@scripts/chaos.sh --seed $(SEED) --kills $(KILLS) --sessions $(SESSIONS) $(if $(FULL),--full)

.PHONY: sweep
sweep: build agents ## kill one part at every event of a turn: AGENT, PART=worker,agent,host
	@scripts/chaos.sh --sweep --agents $(AGENT) --part $(PART)

.PHONY: faults
faults: build agents ## the tests that kill, stop, cut off and fill up
	@scripts/faults.sh

.PHONY: check-config
check-config: programs ## start what compose starts, from its configuration, as plain processes
	@deploy/check-config.sh

.PHONY: fuzz
fuzz: ## every fuzz target, a minute in all
	@scripts/fuzz.sh

.PHONY: nightly
nightly: build agents browser ## long runs: all tests three times over in random order, fuzzing, chaos
	@scripts/nightly.sh

.PHONY: clean
clean: ## remove what was built and installed here
	rm -rf $(BIN) .agents .dev
