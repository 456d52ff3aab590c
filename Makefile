# Needs Go and make; a C compiler for the race detector (without one the tests
# run without it, and say so); git if there is a repository to take the version
# from.

GO        ?= go
# Tags of other modules (pkg/embed/grpcgate/v1.2.3) are no versions of the gate.
VERSION   ?= $(shell git describe --tags --match 'v[0-9]*' --always --dirty 2>/dev/null || echo unknown)
COMMIT    ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
# FIPS=1: with the frozen module of Go's cryptography that has a FIPS 140-3
# certificate, in FIPS 140-3 mode. Output gets separate names.
FIPS      ?=
MODULE140 := v1.0.0
GOFIPS140 := $(if $(filter 1,$(FIPS)),$(MODULE140),off)
SUFFIX    := $(if $(filter 1,$(FIPS)),-fips)
# Without cgo: one static file, no libc in every pod's memory, quicker to start.
BUILD     := CGO_ENABLED=0 GOFIPS140=$(GOFIPS140) $(GO) build -trimpath -buildvcs=false
# Who builds the gate reads its build tags here: this file, images, bench, tests.
TAGS      := $(shell cat cmd/queue/tags)
LDFLAGS   := -s -w -X main.buildVersion=$(VERSION) -X main.buildCommit=$(COMMIT)

# Images: the name that config/ has for the gate, and where to push them.
IMAGE     ?= registry.example/queuegate:dev
PUSH      ?=
EPOCH     ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
REVISION  ?= $(shell git rev-parse HEAD 2>/dev/null)
# URI of the builder, for the provenance of images and releases.
BUILDER   ?= https://github.com/queuegate/queuegate/blob/main/Makefile
SOURCES   := -version '$(VERSION)' -commit '$(COMMIT)' -revision '$(REVISION)' -time '$(EPOCH)' -fips '$(GOFIPS140)' -builder '$(BUILDER)'

PORT      ?= 8012
FUZZTIME  ?= 30s
COUNT     ?= 5
MINORS    ?= $(basename $(notdir $(wildcard test/conformance/knative/versions/*.mod)))
RACE      := $(shell command -v $$($(GO) env CC) >/dev/null 2>&1 && echo -race)

.DEFAULT_GOAL := help
.PHONY: help build binaries image release share run demo test test-queuectl test-bench race e2e fips torture simulate planted conformance minors minors-tidy kyverno render browser otel cluster bench bench-micro lint staticcheck vulncheck fuzz clean

help: ## this list
	@echo 'make <target>:'
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-12s %s\n", $$1, $$2 }'

build: binaries ## bin/queue (the gate), bin/queuectl (beside it) and bin/demo (a container to put behind it); FIPS=1
	cd cmd/queuectl && $(BUILD) -ldflags '$(LDFLAGS)' -o ../../bin/queuectl .

binaries: ## bin/queue and bin/demo alone, as make run starts them; FIPS=1
	$(BUILD) -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o bin/queue ./cmd/queue
	$(BUILD) -o bin/demo ./cmd/demo

image: ## bin/image/queue.tar and demo.tar: OCI archives of IMAGE and IMAGE-demo; PUSH=registry/name[:tag] pushes them; FIPS=1, BUILDER
	cd scripts/image && $(GO) run . -root '$(CURDIR)' -out '$(CURDIR)/bin/image$(SUFFIX)' -image '$(IMAGE)' -push '$(PUSH)' \
		$(SOURCES)

release: ## bin/release: archives for linux/amd64 and arm64, bills of materials, provenance, checksums, of VERSION; FIPS=1, BUILDER
	cd scripts/image && $(GO) run ./archives -root '$(CURDIR)' -out '$(CURDIR)/bin/release$(SUFFIX)' $(SOURCES)

share: build ## bin/share: man pages and completions of queue and queuectl
	bin/queuectl generate --queue bin/queue bin/share

run: binaries ## gate on PORT (8012) in front of the demo on USER_PORT (8080, or a free one), until Ctrl-C
	@$(BUILD) -o bin/run ./scripts/run
	@exec bin/run --port '$(PORT)' --user-port '$(USER_PORT)'

demo: ## the demo container alone, on USER_PORT (8080)
	$(BUILD) -o bin/demo ./cmd/demo
	@exec bin/demo --port '$(or $(USER_PORT),8080)'

# Tests that take minutes with the race detector run without it: a package of queuectl, and
# the files *_model_test.go, whose tests need only one goroutine. The suites in test/ start
# processes or need one goroutine, so they run without it too. The exception is
# test/linearizable.
WITHOUT_RACE := internal/manifest
MODEL_FILES  := $(wildcard pkg/*/*_model_test.go pkg/*/*/*_model_test.go)
MODELS        = ^($(shell sed -n 's/^func Test\([A-Za-z0-9_]*\).*/Test\1/p' $(MODEL_FILES) | paste -sd '|'))$$

# Linking without DWARF halves the time to build a test program. Stack traces do not need
# it. lint runs vet.
TESTFLAGS := -count=1 -ldflags=-w -vet=off
# Many unit tests wait for timeouts, so twice as many packages as processors run at a time.
PACKAGES   = $(shell echo $$(($$(nproc 2>/dev/null || echo 2) * 2)))
# Without it, each test program with the race detector sleeps for a second before it exits.
export GORACE ?= atexit_sleep_ms=20

test: ## all tests of this module, of queuectl and of bench, unit tests first, with the race detector; end-to-end tests last
	@$(if $(RACE),,echo 'no C compiler: testing without the race detector')
	$(GO) test $(RACE) $(TESTFLAGS) -p $(PACKAGES) -timeout 30m ./pkg/... ./cmd/... ./scripts/... ./test/linearizable
	$(if $(RACE),$(GO) test $(TESTFLAGS) -run '$(MODELS)' $(sort $(addprefix ./,$(dir $(MODEL_FILES)))))
	@$(MAKE) --no-print-directory -j 2 -O test-queuectl test-bench
	$(GO) test $(TESTFLAGS) -timeout 30m $$($(GO) list ./test/... | grep -v '/test/linearizable$$')

test-queuectl:
	cd cmd/queuectl && $(GO) test $(RACE) $(TESTFLAGS) -timeout 30m $$($(GO) list ./... | grep -v '/$(WITHOUT_RACE)$$')
	cd cmd/queuectl && $(GO) test $(TESTFLAGS) -timeout 30m ./$(WITHOUT_RACE)

test-bench:
	$(GO) test -C bench $(RACE) $(TESTFLAGS) -timeout 30m ./...

race: ## the tests of pkg and cmd COUNT (5) times over, to shake races out
	$(GO) test $(RACE) -count=$(COUNT) ./pkg/... ./cmd/...

e2e: ## the end-to-end tests: the real binary, a container process, raw sockets
	$(GO) test $(RACE) -count=1 ./test/e2e/...

# Packages that speak TLS, the SHA-1 of WebSocket, and section L of ROWS.md.
fips: ## the tests of TLS with Go's FIPS 140-3 module, where any other algorithm fails (GODEBUG=fips140=only)
	GOFIPS140=$(MODULE140) GODEBUG=fips140=only $(GO) test $(RACE) -count=1 ./pkg/gate/tlsfront ./pkg/gate/server ./pkg/gate/upstream \
		./pkg/probe/check ./pkg/metrics/otlp ./cmd/queue ./cmd/queue/internal/app
	GOFIPS140=$(MODULE140) GODEBUG=fips140=only $(GO) test $(RACE) -count=1 ./pkg/gate/http2 -run WebSocket
	GOFIPS140=$(MODULE140) GODEBUG=fips140=only $(GO) test $(RACE) -count=1 ./test/e2e \
		-run "^($$(sed -n '/^## L\. TLS/,/^## L\. HTTP/p' test/e2e/ROWS.md | grep -o 'Test[A-Za-z0-9_]*' | paste -sd '|'))\$$" \
		-skip TestTheHTTP1ContractAppliesOverTLS

torture: ## kills, cuts, stops and attacks under load, with a ledger of every request; TORTURE_TIME (6m), SEED
	TORTURE_TIME='$(or $(TORTURE_TIME),6m)' SEED='$(SEED)' $(GO) test -count=1 -timeout 0 -v ./test/torture

simulate: ## the gate from a seed: engines on a simulated kernel and clock; SIMTIME (1m), FIRST, SEEDS, GO_ON=1 (after a finding), SEED, CHANGES
	SIMTIME='$(or $(SIMTIME),1m)' SEED='$(SEED)' CHANGES='$(CHANGES)' $(GO) test -count=1 -timeout 0 -v -run 'TestASimulatedGateHasNoFaultForRandomSeeds|TestASimulatedGateHasNoFaultForSeedsThatHaveFailed' ./test/simulate

planted: ## faults that are put into the gate, each to be found by the simulation within a minute; PLANTED=part of a name
	PLANTED='$(or $(PLANTED),all)' $(GO) test -count=1 -timeout 0 -v -tags planted -run TestPlantedFaults ./test/simulate

conformance: ## third-party suites, in separate modules: kubelet, Knative, gRPC, h2spec
	cd test/conformance && $(GO) test -count=1 ./...
	cd test/conformance/knative && $(GO) test -count=1 .

minors: ## the clients of earlier minor versions of Knative; MINORS="1.15 1.20" (all)
	@cd test/conformance/knative && for minor in $(MINORS); do \
		echo "Knative $$minor"; $(GO) test -count=1 -modfile=versions/$$minor.mod . || exit 1; done

minors-tidy: ## go mod tidy for each of these versions, after a change of dependencies
	@cd test/conformance/knative && for file in go.mod versions/*.mod; do $(GO) mod tidy -modfile=$$file || exit 1; done

kyverno: ## config/knative/canary-kyverno.yaml in Kyverno's engine, whose first build takes ten minutes
	cd test/kyverno && $(GO) test -count=1 .

render: ## config/kubernetes, its overlays and the Helm chart, rendered and held to the types of the APIs; admission policies applied
	cd test/render && $(GO) test -count=1 ./...
	cd test/admission && $(GO) test -count=1 .

browser: ## the status page in headless Chromium, which must be installed
	cd test/browser && $(GO) test -count=1 ./...

otel: ## the gate beside Knative's queue-proxy, which is built first: what a collector gets from both in the same environments
	cd test/otel && $(GO) test -count=1 -timeout 30m ./...

cluster: ## pods with the gate in a Kubernetes node on this machine (root, Debian's containerd and others); KNATIVE=1: Knative in it; SUITES=1: its own tests; PROMETHEUS=1: with its adapter
	cd test/cluster && $(GO) test -count=1 -timeout 120m -parallel 4 -v ./$(if $(SUITES),suites,$(if $(PROMETHEUS),prometheus,$(if $(KNATIVE),knative,kubernetes)))

bench: ## the load harness with its default scenarios; more with go run -C bench .
	$(GO) run -C bench . run $(BENCHFLAGS)

bench-micro: ## micro-benchmarks, compared with the recorded ones in bench/micro.txt
	$(GO) run -C bench . micro

lint: ## go vet, gofmt, and a syntax check of the shell scripts
	$(GO) vet ./...
	$(GO) vet -tags planted ./test/simulate
	$(GO) vet -C cmd/queuectl ./...
	$(GO) vet -C bench ./...
	$(GO) vet -C pkg/embed/grpcgate ./...
	@unformatted=$$(find . -name '*.go' -not -path './.*' -exec gofmt -l {} +) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "not gofmt'ed:"; echo "$$unformatted"; exit 1; fi
	@bash -n .ci/run scripts/vulncheck

bin/tools/staticcheck: scripts/tools/go.mod
	@mkdir -p bin/tools
	cd scripts/tools && $(GO) build -o ../../bin/tools/ tool
	@touch bin/tools/*

staticcheck: bin/tools/staticcheck ## staticcheck over this module, queuectl and bench, of the version in scripts/tools
	bin/tools/staticcheck ./...
	cd cmd/queuectl && ../../bin/tools/staticcheck ./...
	cd bench && ../bin/tools/staticcheck ./...

vulncheck: bin/tools/staticcheck ## govulncheck over the same; without its database it says so
	@scripts/vulncheck bin/tools/govulncheck

fuzz: ## each fuzz target for FUZZTIME (30s), one after the other, queuectl's too
	@for module in . cmd/queuectl; do \
		(cd $$module && list=$$($(GO) test -list '^Fuzz' ./...) || { echo "$$list"; exit 1; }; \
		echo "$$list" | awk '/^Fuzz/ { names[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, names[i]; n = 0 }' | \
		while read -r package name; do \
			echo "$$package $$name"; \
			$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$package" </dev/null || exit 1; \
		done) || exit 1; \
	done

clean: ## remove bin/
	rm -rf bin
