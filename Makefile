# Paragon. `make help` lists what can be made.

GO ?= go
BIN := bin
# launch is static, so that it can copy itself to any host. What has package nn opens CUDA through the C library, and is dynamic on Linux; see launch image.
BUILD := CGO_ENABLED=0 $(GO) build -trimpath
# The binding of NVIDIA's telemetry names functions that are deprecated, and does not call them here.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations
# Time per fuzz target.
FUZZTIME ?= 30s
# Seeds of simulated jobs.
SEEDS ?= 1000
FIRST ?= 1
# Of make soak.
MINUTES ?= 60
SOAK_ARGS ?=
FAULTS_ARGS ?=
DEMO_ARGS ?=
PEERS_ARGS ?=
GPUCHECK_ARGS ?=
WHEEL_ARGS ?=
# Makes the environments of Python's tests. Debian's has torch where python3-torch is installed.
PYTHON ?= python3
DEBIAN_PYTHON ?= /usr/bin/python3
# The race detector needs cgo and with it a C compiler; Go says whether it found one.
RACE := $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)
# A program under the race detector sleeps for a second before it exits; tests start hundreds. It also maps its shadow anew for each large array,
# whose pages then fault one by one: a third of the time of tests with large arrays. With the threshold (bytes) it writes zeros.
export GORACE ?= atexit_sleep_ms=0 clear_shadow_mmap_threshold=1000000000
# The garbage collector is about a tenth of the compiler's time, at 100.
test testclusters testexamples testgpu testbench testclouds testkubernetes testmodules slowtest: export GOGC ?= 400
# Nobody debugs these test programs: without tables for a debugger compilation takes a tenth less.
NODWARF := -gcflags=all=-dwarf=false -ldflags="-s -w"
RACEFLAGS := $(RACE) $(NODWARF)
# What needs neither cgo nor the race detector is compiled in one way, so that Go has it for the next target.
PLAIN := CGO_ENABLED=0 GOFLAGS="$$GOFLAGS -gcflags=all=-dwarf=false"
# One package more at a time than there are processors: many tests wait for processes and networks.
PACKAGES := -p $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)
# The SDKs of clouds take long to compile, and tests do without: make testclouds has S3's, make lint and make slowtest have all.
TAGS := -tags nobuckets
# Tests of their own targets: what runs on an NVIDIA GPU, on stand-ins of its libraries that g++ builds, the measuring programs, the examples, Chromium, and
# stand-ins of clouds.
GPU := ./internal/compute/cuda/... ./bench/gpucheck
APART := bench|examples|internal/compute/cuda|tools/browser|checkpoint/bucket
# make test has these folders without the race detector. Numerics without goroutines are plain loops, which take four to nine times as long under it, and so do
# suggesters, which are asked one at a time; others draw pictures or read the repository. Tests of launch start hundreds of processes and link most of what others
# wrote: make testclusters runs them with the race detector, and make testexamples those of tune/show.
WITHOUTRACE := launch|data/internal/decode|data/internal/jpeg|data/internal/pixel|internal/compute/f32|internal/compute/cpu/conv|internal/compute/cpu/linear|tune/suggest|tune/show|metrics/plot|internal/lint|tools|docs
# Of a pattern, the packages in none of some folders.
MODULE := github.com/paragon-train/paragon
outside = $$($(GO) list $(1) | grep -vE '^$(MODULE)/($(2))(/|$$)')
inside = $$($(GO) list $(1) | grep -E '^$(MODULE)/($(2))(/|$$)' | grep -vE '^$(MODULE)/($(APART))(/|$$)')
# What programs of users are written against, which builds for Windows, too; of tune also what a search over functions needs.
LIBRARIES := ./kvstore ./nn ./worker ./optim ./data ./data/text ./data/transform ./sampler ./checkpoint ./metrics ./adapt ./server ./schedulernode ./tune ./tune/suggest ./tune/schedule ./tune/show
# Systems for which make testportable builds, as GOOS/GOARCH.
LIBRARYSYSTEMS := windows/amd64 freebsd/amd64
PROGRAMSYSTEMS := darwin/arm64
# The packages of all modules, as patterns of folders.
FOLDERS := $(foreach m,. ./bench ./checkpoint/bucket ./data/formats ./examples ./tools ./launch,$(m)/...)
# What has kernels of its own for each path.
NUMERIC := ./internal/compute/f32 ./internal/compute/cpu/... ./data/internal/pixel ./data/internal/jpeg ./data/transform

.PHONY: all help build test testraced testplain testclusters testexamples testpaths testgpu testbench testclouds testkubernetes testmodules testdocs testarm64 testportable browsertest slowtest lint fuzz bench bench-peers bench-peers-store bench-peers-curves simulate soak faults gpucheck gpucheck-build generate performance docs tidy demo deps clean wheel pyenv pyenv-latest pytests

all: build test lint ## build, test and lint (the default)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build launch, the examples and gpucheck into bin/
	@echo "building into $(BIN)/: seconds, or some minutes the first time (it compiles the SDKs of clouds)"
	$(BUILD) -o $(BIN)/ ./launch ./examples/... ./bench/gpucheck

# What tests of make test are skipped without: Debian's packages, as program:package.
MISSING = $(foreach p,ssh:openssh-client sshd:openssh-server rsync:rsync ip:iproute2 as:binutils tmux:tmux promtool:prometheus,\
	$(shell PATH="$$PATH:/usr/sbin:/sbin" command -v $(firstword $(subst :, ,$(p))) >/dev/null || echo $(lastword $(subst :, ,$(p)))))

# Both are compilers, processes and waits in turns: together they keep the processors busy.
test: ## run the tests, most of them with the race detector (under ten minutes on two cores); CI runs the other test targets, too
	@[ -n "$(RACE)" ] || echo "there is no C compiler: tests run without the race detector (install gcc)"
	@missing="$(strip $(MISSING))"; [ -z "$$missing" ] || echo "tests are skipped that need the packages $$missing"
	@[ -d "$${PARAGON_TEST_DATA:-../shared/data}" ] || echo "there are no data sets in $${PARAGON_TEST_DATA:-../shared/data} (PARAGON_TEST_DATA): tests on real images are skipped"
	@$(MAKE) --no-print-directory -j2 testraced testplain

# go vet is a part of make lint. go test would run it over all packages of other modules, too.
# What waits longest begins first: other packages are compiled meanwhile.
testraced:
	$(GO) test $(RACEFLAGS) $(TAGS) -vet=off $(PACKAGES) -timeout 15m ./tune ./worker ./kvstore $(call outside,work,$(APART)|$(WITHOUTRACE))

# Real data sets are unpacked here: under the race detector that takes ten times as long.
testplain:
	CGO_ENABLED=0 $(GO) test $(NODWARF) $(TAGS) -vet=off -timeout 10m $(call inside,work,$(WITHOUTRACE))
	CGO_ENABLED=0 $(GO) test $(NODWARF) -count=1 -vet=off -timeout 5m -run LoadsFromIts ./data

testclusters: ## run the tests of launch with the race detector, and on clusters of this machine: Slurm, Open MPI and podman, where they are installed
	PARAGON_TEST_CLUSTERS=1 $(GO) test $(RACEFLAGS) $(TAGS) -vet=off -timeout 15m ./launch/... ./internal/testing/slurmtest

# Pictures are with what compiles their drawing anyway.
testexamples: ## run the tests of the examples, which train and search
	$(GO) test $(RACEFLAGS) $(TAGS) -vet=off -timeout 10m ./examples/... ./tune/show

# Tests of the kernels themselves go through all paths anyway. The cache of go test does not see the variable, which is read before tests begin: -count=1.
testpaths: ## test whole models on the numeric code's portable and AVX2 paths
	@set -e; for path in portable avx2; do \
		if [ $$path = avx2 ] && ! grep -qsw avx2 /proc/cpuinfo; then echo "this machine has no AVX2; skipped"; continue; fi; \
		echo "PARAGON_CPU=$$path"; \
		CGO_ENABLED=0 PARAGON_CPU=$$path $(GO) test $(NODWARF) -count=1 -short -skip 'GPU|/cuda|//cuda' -vet=off -timeout 5m ./nn; \
	done

testgpu: ## test what runs on an NVIDIA GPU, on stand-ins of its libraries (models on them are a part of make test)
	$(GO) test $(RACEFLAGS) $(TAGS) -vet=off $(PACKAGES) -timeout 10m $(GPU)

testbench: ## test the measuring programs
	$(GO) test $(RACEFLAGS) $(TAGS) -vet=off $(PACKAGES) -timeout 10m $$($(GO) list ./bench/... | grep -v /bench/gpucheck)

testclouds: ## test checkpoints and data in a stand-in of S3, whose SDK make test does without
	$(GO) test $(RACEFLAGS) -tags s3only -vet=off -timeout 5m ./checkpoint/bucket
	CGO_ENABLED=0 $(GO) test $(NODWARF) -tags s3only -vet=off -timeout 5m ./bench/owndata
	CGO_ENABLED=0 $(GO) test $(NODWARF) -tags s3only -vet=off -timeout 5m -run TestCheckpointsAreInABucket ./examples/cifar10

# The module of its own has what only these tests need: Kubernetes itself, of which they compile the parts that check and run manifests.
testkubernetes: ## test the manifests of launch k8s by Kubernetes' own schemas, validation and Job controller
	cd launch/internal/kubernetes/schematest && GOWORK=off CGO_ENABLED=0 $(GO) test $(NODWARF) -vet=off -parallel 4 -timeout 10m ./...

# The cache of go test does not see the programs that these tests build: -count=1.
testdocs: ## run the commands of README and of the pages in docs, and compare docs/reference with the programs
	PARAGON_TEST_DOCS=1 PARAGON_TEST_CLUSTERS=1 CGO_ENABLED=0 $(GO) test $(NODWARF) $(TAGS) -count=1 -vet=off -timeout 20m ./docs ./tools/docgen

# The second CPU has no instructions for bfloat16.
testarm64: ## test the numeric code for arm64, where qemu-aarch64-static is installed
	@if command -v qemu-aarch64-static >/dev/null; then \
		GOARCH=arm64 $(PLAIN) $(GO) test -exec qemu-aarch64-static -count=1 -short -vet=off -timeout 10m $(NUMERIC) && \
		GOARCH=arm64 $(PLAIN) $(GO) test -exec 'qemu-aarch64-static -cpu cortex-a72' -count=1 -short -vet=off -timeout 10m ./internal/compute/f32; \
	else echo "qemu-aarch64-static is not installed; arm64 is vetted only (make lint)"; fi

# Go has the results of the root module's tests from make test. Without the workspace they run again only where other requirements give another program.
testmodules: ## test that each module is whole without the others, and that a release of this source can be installed and linked
	GOWORK=off $(GO) test $(RACEFLAGS) $(TAGS) -vet=off -timeout 15m $(call outside,./...,$(APART)|$(WITHOUTRACE))
	PARAGON_TEST_MODULES=1 $(GO) test -count=1 -vet=off -timeout 20m ./tools/modules

# Nothing of this runs here: it shows that the code compiles. The programs of macOS are built without the SDKs of clouds, which are the same for all systems.
testportable: ## build the libraries for Windows and FreeBSD, and all programs for macOS
	@set -e; for system in $(LIBRARYSYSTEMS); do echo "$$system: the libraries"; \
		GOOS=$${system%/*} GOARCH=$${system#*/} $(PLAIN) $(GO) build $(LIBRARIES); done; \
	for system in $(PROGRAMSYSTEMS); do echo "$$system: libraries and programs"; \
		GOOS=$${system%/*} GOARCH=$${system#*/} $(PLAIN) $(GO) build -tags nobuckets $(filter-out ./checkpoint/bucket/...,$(FOLDERS)); done

# Chromium is not slowed by the race detector, but the time it has to answer is; the same packages' code runs under it in make test.
browsertest: ## run the tests of pages in Chromium, where it is installed
	$(GO) test $(TAGS) -vet=off -timeout 5m ./tools/browser/...

wheel: ## write the Python package paragon-train as a wheel into bin/wheels (WHEEL_ARGS: flags of tools/wheel, such as -arch amd64,arm64)
	$(GO) run ./tools/wheel -out $(BIN)/wheels $(WHEEL_ARGS)

pyenv: $(BIN)/pyenv/made ## make bin/pyenv, the environment of Python's tests without torch, by PYTHON (python3) from PyPI
pyenv-latest: $(BIN)/pyenv-latest/made ## make bin/pyenv-latest with the newest torch, torchvision, transformers, accelerate and safetensors (5.5 GB)

$(BIN)/pyenv/made: python/requirements.txt
$(BIN)/pyenv-latest/made: python/requirements-latest.txt
$(BIN)/pyenv/made $(BIN)/pyenv-latest/made:
	rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

# Programs are built as other tests have them, without the SDKs of clouds.
pytests: ## test the Python client with numpy alone, and with Debian's python3-torch where it is installed (under three minutes)
	CGO_ENABLED=0 $(GO) build $(NODWARF) $(TAGS) -o $(BIN)/python/ ./launch ./examples/mnist
	$(GO) run ./tools/wheel -launch $(BIN)/python/launch -out $(BIN)/python
	python/pytests.sh $(BIN) $(DEBIAN_PYTHON)

slowtest: ## run the tests that take long, too: whole trainings, many seeds
	PARAGON_TEST_SLOW=1 PARAGON_TEST_CLUSTERS=1 $(GO) test $(RACE) -timeout 3h work

simulate: ## run whole jobs on fake time with faults from SEEDS seeds, FIRST and on (one alone: SEED=17)
	$(GO) test ./internal/testing/simulate -run TestSimulation -count=1 -v -timeout 3h $(if $(SEED),-seed $(SEED) -times 20,-seeds $(SEEDS) -first $(FIRST))

soak: ## train for MINUTES with a fault every 20 to 60 s (Linux, root, iproute2; SOAK_ARGS: flags of bench/soak)
	$(BUILD) -o $(BIN)/ ./launch ./bench/soak
	$(BIN)/soak -minutes $(MINUTES) -launch $(BIN)/launch $(SOAK_ARGS)

faults: ## the table of what faults do to a job (Linux, root, iproute2; FAULTS_ARGS: flags of bench/faults)
	$(GO) run ./bench/faults/walljump $(BIN)/walljump
	$(BUILD) -overlay $(BIN)/walljump/overlay.json -tags walljump -o $(BIN)/ ./bench/faults
	$(BIN)/faults $(FAULTS_ARGS)

# golangci-lint runs go vet, too. Only internal/hosts/gpustat has files that need cgo. What only other systems compile is vetted for them.
lint: $(BIN)/golangci-lint ## gofmt, golangci-lint with go vet, and go vet for arm64, Windows and macOS of what differs there
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "not formatted by gofmt:"; echo "$$out"; exit 1; fi
	$(PLAIN) $(BIN)/golangci-lint run --timeout 20m $(FOLDERS)
	$(BIN)/golangci-lint run ./internal/hosts/gpustat
	GOARCH=arm64 $(PLAIN) $(GO) vet $(NUMERIC)
	$(PLAIN) $(GO) vet -tags gpu ./internal/compute/cuda/...
	@set -e; for os in windows darwin; do echo "GOOS=$$os $(GO) vet, the libraries"; \
		GOOS=$$os $(PLAIN) $(GO) vet $$(GOOS=$$os CGO_ENABLED=0 $(GO) list -deps -f '{{if .Module}}{{if .Module.Main}}{{.ImportPath}}{{end}}{{end}}' $(LIBRARIES)); done

$(BIN)/golangci-lint: tools/golangci/go.mod
	cd tools/golangci && GOWORK=off $(PLAIN) $(GO) build -o $(CURDIR)/$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

fuzz: ## fuzz every decoder for FUZZTIME each
	@set -e; for pkg in $$($(GO) list work); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$pkg; \
		done; \
	done

bench: ## run the benchmarks
	$(GO) test -run '^$$' -bench . -benchmem work

bench-peers: ## measure training against PyTorch in turns, where python3-torch is installed; PEERS_TORCH=latest fetches the newest (PEERS_ARGS: flags of bench/peers)
	bench/peers/torch.sh $(PEERS_ARGS)

bench-peers-store: ## measure the store against ps-lite in turns, where PSLITE names a checkout of it (PEERS_ARGS: flags of bench/kv)
	PSLITE="$(PSLITE)" bench/peers/pslite.sh $(PEERS_ARGS)

bench-peers-curves: ## measure searches that stop trials beside Optuna and Syne Tune, which PyPI gives, for hours (PEERS_ARGS: flags of bench/tune --curves)
	bench/tune/peers.sh $(PEERS_ARGS)

# Tests of a GPU, as programs for a machine without Go.
gpucheck-build: build ## build gpucheck with its tests into bin/, for a machine with a GPU
	mkdir -p $(BIN)/gpucheck-tests
	CGO_ENABLED=0 $(GO) test -c -trimpath -vet=off -tags gpu -o $(BIN)/gpucheck-tests/ ./internal/compute/cuda/kernels ./internal/compute/cuda/cublaslt ./internal/compute/cuda/cudnn ./internal/compute/cuda

gpucheck: gpucheck-build ## verify and measure everything on this machine's NVIDIA GPU (GPUCHECK_ARGS: flags of bin/gpucheck)
	$(BIN)/gpucheck -json $(BIN)/gpucheck.json $(GPUCHECK_ARGS)

generate: ## make the generated files anew
	$(GO) generate ./...

performance: ## write the tables of docs/performance.md from the results in docs/design/measured
	$(GO) run ./bench/machines -into docs/performance.md docs/design/measured/*.txt

docs: build ## write the parts of docs/reference that a program makes, and docs/python/reference.md
	$(GO) run ./tools/docgen -bin $(BIN)
	$(PYTHON) python/reference.py

tidy: ## tidy the go.mod of every module
	$(GO) run ./tools/modules tidy

# The SDKs of clouds are most of the time of a first build: these programs go without, in a folder of their own.
demo: ## train on this machine: 2 workers, 2 servers, no network
	$(BUILD) -tags nobuckets -o $(BIN)/demo/ ./launch ./examples/cifar10
	$(BIN)/demo/launch -n 2 -s 2 -- $(BIN)/demo/cifar10 $(DEMO_ARGS)

deps: ## install what the tests need besides Go (Debian, as root)
	apt-get update
	apt-get install -y --no-install-recommends openssh-server openssh-client rsync iproute2 qemu-user-static binutils-aarch64-linux-gnu g++ clang-19 prometheus chromium python3-torch python3-numpy python3-pytest python3-venv

clean: ## remove what was built
	rm -rf $(BIN)
