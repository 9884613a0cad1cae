# Every target works on a fresh clone; `make help` lists them. CI calls the same
# ones through .ci/run.

GO ?= go
UPSTREAM ?= http://127.0.0.1:3001/mcp
LISTEN ?= 127.0.0.1:8080
FUZZTIME ?= 20s

# Only what has to be fast is compiled with cmd/holdfast/default.pgo: that compiles
# all of it once more.
export GOFLAGS := $(GOFLAGS) -pgo=off
build run bench profile: GOFLAGS := $(filter-out -pgo=off,$(GOFLAGS))

# The protocol's JSON schemas, against which test/e2e holds every message where they
# are; `make schemas` brings them. Holdfast itself knows no such variable, and says so.
SCHEMAS := $(CURDIR)/test/conformance/out/schema
HOLDFAST_SCHEMA_DIR ?= $(wildcard $(SCHEMAS))
unexport HOLDFAST_SCHEMA_DIR

# Tests wait more than they compute: more of them run at once than there are cores.
# What hangs is told of before the job that runs them ends.
TEST = $(GO) test -count=1 -timeout 5m -p 4 -parallel 10
E2E = HOLDFAST_SCHEMA_DIR="$(HOLDFAST_SCHEMA_DIR)" $(TEST)
RACE = HOLDFAST_SCHEMA_DIR="$(HOLDFAST_SCHEMA_DIR)" CGO_ENABLED=1 $(TEST) -race -timeout 8m -parallel 8
UNITS = $$($(GO) list ./... | grep -v /test/e2e)

# Fuzz targets as package:target; test/readme holds the list to the code.
FUZZ = \
	./adapter:FuzzWire \
	./adapter/dialect:FuzzDecode \
	./adapter/jsonrpc:FuzzAppendQuote \
	./adapter/jsonrpc:FuzzDigest \
	./adapter/jsonrpc:FuzzFoldsTo \
	./adapter/jsonrpc:FuzzParseRequest \
	./adapter/jsonrpc:FuzzParseServer \
	./adapter/jsonrpc:FuzzValidate \
	./adapter/legacy:FuzzBody \
	./adapter/legacy:FuzzParseID \
	./adapter/legacy:FuzzResponseHead \
	./adapter/legacy:FuzzSSE ./adapter/legacy:FuzzParcel \
	./adapter/legacy:FuzzNamedBy \
	./adapter/lines:FuzzReader \
	./adapter/state:FuzzOpen \
	./bus:FuzzBeat ./bus:FuzzFrame \
	./cmd/internal/modern:FuzzEventReader \
	./config:FuzzLoad \
	./proxy:FuzzHeaderValue

# Black-box tests that choose their transports themselves, and those that say most
# of servers whose sessions have one stream for everything.
ANY_UPSTREAM = ^(TestEveryServer|TestChild|TestProcess|TestScopes|TestOneProcessOfAll)
ONE_STREAM = ^Test(OfficialClient|Several|Hinted|Answers|Retr|Disconnect|Parked|Pushed|Question|Orphan|Queue|Listen|Sessions?|Idle|Shutdown|Hop|Nothing|Task|Visit|Unauthorized|Handshake|Dialect|Resumable|ResumeToken|Saga|Incomplete|Dependent|Persistent)

.DEFAULT_GOAL := help

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build ./bin/holdfast
	$(GO) build -trimpath -o bin/holdfast ./cmd/holdfast

.PHONY: run
run: build ## serve one server: make run UPSTREAM=http://127.0.0.1:3001/mcp
	./bin/holdfast serve --listen $(LISTEN) --upstream $(UPSTREAM) --log-format console

.PHONY: demo
demo: ## a stateless client uses a legacy server that asks it things
	$(GO) run ./test/demo

.PHONY: test
test: ## all tests but those that need more than Go; the black-box ones over every transport and in every revision, on one replica and, two ways, on three
	$(TEST) $(UNITS)
	$(E2E) ./test/e2e/ # builds the binary itself, which the test cache does not see
	HOLDFAST_E2E_UPSTREAM=sse HOLDFAST_E2E_REVISION=2024-11-05 $(E2E) -skip '$(ANY_UPSTREAM)' ./test/e2e/ # servers over HTTP+SSE
	HOLDFAST_E2E_UPSTREAM=stdio HOLDFAST_E2E_REVISION=2025-06-18 $(E2E) -skip '$(ANY_UPSTREAM)' ./test/e2e/ # servers that are processes
	HOLDFAST_E2E=cluster HOLDFAST_E2E_REVISION=2025-03-26 $(E2E) ./test/e2e/ # three replicas, an embedded NATS cluster
	HOLDFAST_E2E=nats $(E2E) ./test/e2e/ # three replicas, a nats-server process
	HOLDFAST_E2E=cluster HOLDFAST_E2E_UPSTREAM=sse $(E2E) -run '$(ONE_STREAM)' ./test/e2e/
	HOLDFAST_E2E=cluster HOLDFAST_E2E_UPSTREAM=stdio HOLDFAST_E2E_REVISION=2024-11-05 $(E2E) -run '$(ONE_STREAM)' ./test/e2e/

.PHONY: revisions
revisions: ## the black-box tests with every transport in every revision, on one replica and on three (half an hour)
	@set -e; for mode in one cluster; do for upstream in streamable sse stdio; do for revision in 2024-11-05 2025-03-26 2025-06-18 2025-11-25; do \
		echo "black-box tests: $$mode, $$upstream, $$revision"; \
		HOLDFAST_E2E=$$mode HOLDFAST_E2E_UPSTREAM=$$upstream HOLDFAST_E2E_REVISION=$$revision \
			$(E2E) -skip '$(ANY_UPSTREAM)' ./test/e2e/; \
	done; done; done

.PHONY: race
race: ## all tests under the race detector, with one replica (needs a C compiler)
	CGO_ENABLED=1 $(TEST) -race $(UNITS)
	$(RACE) ./test/e2e/

.PHONY: schemas
schemas: ## the protocol's JSON schemas, for the tests of the built binary (needs npm)
	$(GO) run ./test/conformance -schemas $(SCHEMAS)

.PHONY: conformance
conformance: schemas ## the official conformance suite, and the protocol's JSON schemas (needs npm)
	$(GO) run ./test/conformance
	$(GO) run ./test/conformance -replicas 3
	HOLDFAST_SCHEMA_DIR=$(or $(HOLDFAST_SCHEMA_DIR),$(SCHEMAS)) $(TEST) -run '^TestWire' ./test/e2e/ # make test holds all others against them, once they are there

.PHONY: real
real: ## published servers behind Holdfast, against a direct client (needs npm)
	$(GO) run ./test/real

.PHONY: bench
bench: ## speed and memory, beside nginx and the server alone (needs nginx)
	$(GO) run ./test/bench

.PHONY: profile
profile: ## cmd/holdfast/default.pgo, from which the compiler learns what is hot
	$(GO) run ./test/bench -only profile

.PHONY: chaos
chaos: ## replicas and commands killed, drained and cut off under load (needs Linux; CHAOS_SEED=, CHAOS_CALLS=, CHAOS_PART=)
	$(GO) run ./test/chaos

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME
	@set -e; for f in $(FUZZ); do \
		echo "fuzz $$f"; \
		$(GO) test "$${f%%:*}" -run '^$$' -fuzz "^$${f##*:}$$" -fuzztime $(FUZZTIME); \
	done

.PHONY: lint
lint: ## go vet, staticcheck, gofmt, tidy go.mod
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	@files="$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go'))"; \
		if [ -n "$$files" ]; then echo "not gofmt-ed (make fmt):"; echo "$$files"; exit 1; fi
	$(GO) mod tidy -diff

.PHONY: fmt
fmt: ## gofmt all
	gofmt -w $$(git ls-files -co --exclude-standard '*.go')
