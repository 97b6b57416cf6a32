#!/usr/bin/env bash
# All tests: each fuzz test for a while, the real SDKs against the built
# binary, and last everything that go test runs, under the race detector.
#
#   FUZZTIME=3s   for each fuzz test
#   CI=true       what can't be installed fails the run; else it is left out, and named
set -u
cd "$(dirname "$0")/.." || exit 1
fuzztime=${FUZZTIME:-3s}
failed=()
left_out=()

# install PACKAGE...: where that can be done; whether it worked shows by what is there.
install() {
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return
	{ apt-get install -y --no-install-recommends "$@" || { apt-get update && apt-get install -y --no-install-recommends "$@"; }; } >/dev/null 2>&1
}

# The race detector needs a C compiler.
race=(-race)
compiler() { command -v "$(go env CC)" >/dev/null; }
compiler || install gcc libc6-dev
if compiler; then
	export CGO_ENABLED=1
else
	race=()
	left_out+=("the race detector: there is no C compiler ($(go env CC))")
fi

# The tests of many nodes start real Redis servers; the engine's have some of
# those go by a clock of their own, which is libfaketime's.
packages=(./...)
servers() { command -v redis-server && command -v redis-cli; } >/dev/null
clock() { compgen -G '/usr/lib*/*/faketime/libfaketime.so.1' || compgen -G '/usr/lib*/faketime/libfaketime.so.1'; } >/dev/null
servers && clock || install redis-server libfaketime
servers || left_out+=("the tests on Redis: there is no redis-server or redis-cli")
clock || left_out+=("the tests of cache/redis: there is no libfaketime")

# The dashboard is looked at in a real browser.
browser() { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null
browser || install chromium
browser || left_out+=("the tests of the dashboard: there is no chromium")

skip=()
servers && clock || skip+=(-e '/cache/redis$')
browser || skip+=(-e '/test/browser$')
[ ${#skip[@]} = 0 ] || mapfile -t packages < <(go list ./... | grep -v "${skip[@]}")

# A real Prometheus scrapes a gateway and holds the alerts to their tests.
monitor() { command -v prometheus && command -v promtool; } >/dev/null
monitor || install prometheus
monitor || left_out+=("the tests with Prometheus: there is no prometheus or promtool")

# What fuzzes is built once for a package; go test would build it for each test.
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
corpus=$(go env GOCACHE)/fuzz/$(go list -m) # where go test keeps it

# fuzz FOLDER NAME: one fuzz test, on one core.
fuzz() {
	local log=$bin/$2.log begin=$SECONDS
	for _ in 1 2; do
		if (cd "$1" && "$bin/${1//\//-}" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$fuzztime" -test.parallel 1 \
			-test.fuzzcachedir "$corpus/$1") >"$log" 2>&1; then
			echo "fuzz  $2  $1  $((SECONDS - begin))s"
			return
		fi
		# At the end of its time, go's fuzzer sometimes takes its own deadline for a
		# failure (golang/go#75804): there is no failing input then.
		grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input written' "$log" || break
	done
	echo "FAIL  $2  $1"
	cat "$log"
	return 1
}
export -f fuzz
export fuzztime bin corpus

for folder in $(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -r dirname | sort -u); do
	folder=${folder#./}
	if go test -c -fuzz=. -o "$bin/${folder//\//-}" "./$folder"; then
		"$bin/${folder//\//-}" -test.list '^Fuzz' | sed "s|^|$folder |"
	else
		failed+=("fuzz tests: those of $folder do not build")
	fi
done >"$bin/list"
xargs -r -P "$(nproc)" -L 1 bash -c 'fuzz "$0" "$1"' <"$bin/list" || failed+=("fuzz tests")

if [ -x test/sdk/run.sh ]; then
	make --no-print-directory build && ONCEGATE_BIN=bin/oncegate test/sdk/run.sh || failed+=("SDK checks")
fi

# Whole processes and browsers go last, one package after the other: they go by
# the clock, and a machine that is too busy is what they take for a store away.
whole=() parts=()
[ ${#packages[@]} -gt 1 ] || mapfile -t packages < <(go list "${packages[@]}")
for p in "${packages[@]}"; do
	case $p in */test | */test/browser) whole+=("$p") ;; *) parts+=("$p") ;; esac
done
go test "${race[@]}" -timeout 10m "${parts[@]}" || failed+=("go test")
go test "${race[@]}" -timeout 10m -p 1 "${whole[@]}" || failed+=("go test of whole processes")

# The black-box cases above ran against the plain binary: under the race detector
# it takes three times the CPU. Those in which much meets do so again with it.
together='B063|Together|Twins|Coalesc|Follower|TestB084SIGTERM|TestToolsLate|TestNodesTenAtOnce|TestNodesStreamIsLive'
[ ${#race[@]} = 0 ] || ONCEGATE_RACE=1 go test -race -timeout 5m -run "$together" ./test || failed+=("go test against a gateway with the race detector")

# The long simulations leave themselves out under the race detector.
go test ./policy/simulate || failed+=("simulations")

# What compares with other libraries is a module of its own.
if (cd bench/policy && go mod download) >/dev/null 2>&1; then
	(cd bench/policy && go test ./...) || failed+=("bench/policy")
else
	left_out+=("bench/policy: the libraries it compares with can't be had")
fi

for what in "${left_out[@]}"; do
	echo "left out: $what" >&2
	[ "${CI:-}" = true ] && failed+=("$what")
done
[ ${#failed[@]} = 0 ] || { printf 'failed: %s\n' "${failed[@]}" >&2; exit 1; }
