#!/usr/bin/env bash
# All tests: each fuzz test for a while, the real SDKs against the built
# binary, and last everything that go test runs, under the race detector.
#
#   FUZZTIME=5s   for each fuzz test
#   CI=true       what can't be installed fails the run; else it is left out, and named
set -u
cd "$(dirname "$0")/.." || exit 1
fuzztime=${FUZZTIME:-5s}
failed=()
left_out=()

# The race detector needs a C compiler.
race=(-race)
compiler() { command -v "$(go env CC)" >/dev/null; }
if ! compiler && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	{ apt-get install -y --no-install-recommends gcc libc6-dev || { apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev; }; } >/dev/null 2>&1
fi
if compiler; then
	export CGO_ENABLED=1
else
	race=()
	left_out+=("the race detector: there is no C compiler ($(go env CC))")
fi

# fuzz PACKAGE NAME: one fuzz test, on one core.
fuzz() {
	local log begin=$SECONDS
	log=$(mktemp)
	for _ in 1 2; do
		if go test -run '^$' -fuzz "^$2\$" -fuzztime "$fuzztime" -parallel 1 "$1" >"$log" 2>&1; then
			echo "fuzz  $2  $1  $((SECONDS - begin))s"
			rm "$log"
			return
		fi
		# At the end of its time, go's fuzzer sometimes takes its own deadline for a
		# failure (golang/go#75804): there is no failing input then.
		grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input written' "$log" || break
	done
	echo "FAIL  $2  $1"
	cat "$log"
	rm "$log"
	return 1
}
export -f fuzz
export fuzztime

# go test -list prints the names of a package, then a line that names it.
if list=$(go test -list '^Fuzz' ./...); then
	echo "$list" |
		awk '/^Fuzz/ { names[n++] = $1 } /^(ok|\?)/ { for (i = 0; i < n; i++) print $2, names[i]; n = 0 }' |
		xargs -r -P "$(nproc)" -L 1 bash -c 'fuzz "$0" "$1"' || failed+=("fuzz tests")
else
	echo "$list"
	failed+=("fuzz tests: the tests do not build")
fi

printf "failed: %s\n" "${failed[@]}"
