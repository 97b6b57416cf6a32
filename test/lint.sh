#!/usr/bin/env bash
# The daily gate beside the tests: gofmt, go vet, go fix, staticcheck. All of
# them run, then the status is told.
set -u
cd "$(dirname "$0")/.." || exit 1
status=0

# silent COMMAND...: what it prints is a fault, but for the modules it has to fetch.
silent() {
	local out
	out=$("$@" 2>&1 | sed '/^go: downloading /d'; exit "${PIPESTATUS[0]}") && [ -z "$out" ] && return
	echo "$*:"
	echo "$out"
	status=1
}

mapfile -t files < <(find . -name '*.go' -not -path '*/node_modules/*' -not -path '*/.venv/*')
silent gofmt -l "${files[@]}"
silent go vet ./...
silent go vet -tags sdk ./test/...
silent go fix -diff ./...
silent go tool -modfile=tools.mod staticcheck ./...
exit $status
