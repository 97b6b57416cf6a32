#!/usr/bin/env bash
# Runs the real SDKs against the gateway: openai, anthropic, langchain-openai
# and openai-agents for Python and Node, ai for Node, and go-openai. What they
# need is installed below this folder where it is missing, in the versions
# pinned here; a second run installs nothing.
#
#   ONCEGATE_BIN  the binary to check; without it one is built
#   SDK_PLAIN=1   a plain proxy in the gateway's place: shows which checks fail without one
#   CI=true       an SDK that can't be installed fails the run, else it is left out
#
# Arguments go to go test: -v shows every check, -run picks suites. Ends with a
# line for each SDK, and exits 1 when a check failed.
set -u
[ -z "${ONCEGATE_BIN:-}" ] || ONCEGATE_BIN=$(realpath "$ONCEGATE_BIN") || exit 1
cd "$(dirname "$0")" || exit 1
left_out=()

# system PACKAGE...: installs packages of the system, where this user may.
system() {
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
	local log
	log=$(mktemp)
	apt-get install -y --no-install-recommends "$@" >"$log" 2>&1 ||
		{ apt-get update && apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1 ||
		{ tail -5 "$log" && rm "$log" && return 1; }
	rm "$log"
}

# stamped FILE TEXT: whether FILE was written after an install of just this.
stamped() { [ "$(cat "$1" 2>/dev/null)" = "$2" ]; }

python_ready() { python3 -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

install_python() {
	python_ready || system python3 python3-venv && python_ready ||
		{ echo "needs python3 of 3.11 or later with its venv module"; return 1; }
	local want
	want=$(python3 --version && cat python/requirements.txt)
	stamped .venv/stamp "$want" && return
	echo "installing the Python SDKs" >&2
	rm -rf .venv
	python3 -m venv .venv &&
		.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --require-hashes -r python/requirements.txt &&
		echo "$want" >.venv/stamp
}

node_ready() { command -v npm >/dev/null && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null; }

install_node() {
	node_ready || system nodejs npm && node_ready ||
		{ echo "needs node of 20 or later with npm"; return 1; }
	local want
	want=$(node --version && cat node/package-lock.json)
	stamped node/node_modules/stamp "$want" && return
	echo "installing the Node SDKs" >&2
	(cd node && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) &&
		echo "$want" >node/node_modules/stamp
}

languages=go
for language in python node; do
	if why=$("install_$language"); then
		languages+=" $language"
	else
		left_out+=("the $language SDKs: ${why:-they could not be installed, see above}")
	fi
done

if [ -z "${ONCEGATE_BIN:-}" ]; then
	ONCEGATE_BIN=$PWD/bin/oncegate
	(cd ../.. && go build -o "$ONCEGATE_BIN" ./cmd/oncegate) || exit 1
fi
export ONCEGATE_BIN SDK_LANGUAGES=$languages

# Named as a folder, go test would hold its output back: run from inside, it
# prints the closing lines. The parallel checks mostly wait, so there may be
# more of them than cores.
go test -tags sdk -count=1 -parallel 16 -timeout 8m "$@"
status=$?

for what in "${left_out[@]}"; do
	echo "left out: $what" >&2
	[ "${CI:-}" = true ] && status=1
done
exit $status
