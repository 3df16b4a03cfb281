# Paragon. `make help` lists what can be made.

GO ?= go
BIN := bin
# Programs are static, so that launch can copy itself to any host.
BUILD := CGO_ENABLED=0 $(GO) build -trimpath
# Time per fuzz target.
FUZZTIME ?= 30s
DEMO_ARGS ?=
PEERS_ARGS ?=

.PHONY: all help build test slowtest lint fuzz bench bench-peers generate demo deps clean

all: build test lint ## build, test and lint (the default)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build launch and the examples into bin/
	$(BUILD) -o $(BIN)/ ./launch ./examples/...

test: ## run the tests with the race detector (under ten minutes on two cores)
	$(GO) test -race -timeout 15m ./...

slowtest: ## run the tests that take long, too: whole trainings, many seeds
	PARAGON_TEST_SLOW=1 $(GO) test -race -timeout 3h ./...

lint: ## gofmt, go vet, and golangci-lint where it is installed
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "not formatted by gofmt:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	@if command -v golangci-lint >/dev/null; then golangci-lint run ./...; else echo "golangci-lint is not installed; skipped"; fi

fuzz: ## fuzz every decoder for FUZZTIME each
	@set -e; for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

bench: ## run the benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

bench-peers: ## measure training against PyTorch in turns, where python3-torch is installed (PEERS_ARGS: flags of bench/peers)
	bench/peers/torch.sh $(PEERS_ARGS)

generate: ## make the generated files anew
	$(GO) generate ./...

demo: build ## train on this machine: 2 workers, 2 servers, no network
	$(BIN)/launch -n 2 -s 2 -- $(BIN)/cifar10 $(DEMO_ARGS)

deps: ## install what the tests need besides Go (Debian, as root)
	apt-get update
	apt-get install -y --no-install-recommends openssh-server openssh-client rsync iproute2

clean: ## remove what was built
	rm -rf $(BIN)
