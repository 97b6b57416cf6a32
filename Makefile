# make run     builds the gateway and starts it on config.yaml: embedded store, built-in mock upstream
# make build   bin/oncegate
# make test    everything, FUZZTIME=3s of each fuzz test
# make lint    gofmt, go vet, go fix, staticcheck
# make demo    what it saves: a gateway and an upstream that goes wrong, in one process
# make bench   CPU a request as a ratio to the floor, BENCH="flags of bench"
# make bench-policy   what limit, breaker and budget cost a call, beside gobreaker and failsafe-go

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
FUZZTIME ?= 3s
BENCH    ?=

.PHONY: run build demo test lint bench bench-policy clean

run: bin/oncegate
	./bin/oncegate serve --config config.yaml

build: bin/oncegate

demo: bin/oncegate
	./bin/oncegate demo

# What is built from: a change of anything else does not link it anew. The last
# one is there for the version.
sources := $(shell find cmd cache gateway policy prices providers web -type f ! -name '*_test.go' ! -path '*/testdata/*' 2>/dev/null)

bin/oncegate: $(sources) go.mod go.sum $(wildcard .git/logs/HEAD)
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)' -o $@ ./cmd/oncegate
	@touch $@

test:
	FUZZTIME=$(FUZZTIME) ./test/run.sh

lint:
	./test/lint.sh

bench:
	go run ./bench $(BENCH)

bench-policy:
	cd bench/policy && go test -run '^$$' -bench . -count 5 .

clean:
	rm -rf bin
