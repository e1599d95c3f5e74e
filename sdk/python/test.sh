#!/usr/bin/env bash
# All tests of the Python SDK: ruff, mypy, pytest with the newest and with the oldest releases that
# it stands on, and the wheel in an empty environment, where the quickstart runs.
#
# Needs Python 3.10 or later (PYTHON names one), and the binary bin/rota (ROTA_BIN names another).
# Installs only below ${XDG_CACHE_HOME:-~/.cache}/rota-sdk.
set -euo pipefail
cd "$(dirname "$0")"

fit='import sys; sys.exit(sys.version_info < (3, 10))'
python=
for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
  if [ -n "$candidate" ] && "$candidate" -c "$fit" 2>/dev/null; then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  echo "sdk-test-python: NOT RUN: there is no Python 3.10 or later; PYTHON can name one"
  exit 0
fi

ROTA_BIN=$(realpath "${ROTA_BIN:-../../bin/rota}")
export ROTA_BIN PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
[ -x "$ROTA_BIN" ] || { echo "sdk-test-python: $ROTA_BIN is not there: make build" >&2; exit 1; }

work=$(mktemp -d)
trap '[ -z "${dev:-}" ] || kill "$dev" 2>/dev/null || true; rm -rf "$work"' EXIT
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rota-sdk/python
version=$("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])')

# environment NAME FILE...: an environment with what the files name, made once for each content.
environment() {
  local dir from=() f
  for f in "${@:2}"; do from+=(-r "$f"); done
  dir=$cache/$version-$1-$(cat "${@:2}" | sha256sum | cut -c1-12)
  if [ ! -e "$dir/ready" ]; then
    rm -rf "$dir"
    "$python" -m venv "$dir" >&2 && "$dir/bin/pip" install -q "${from[@]}" >&2 && touch "$dir/ready" || return 1
  fi
  echo "$dir/bin"
}
step() { echo "== sdk-test-python: $*"; }

step "Python $version, pinned releases"
bin=$(environment dev requirements-dev.txt)

step ruff
"$bin/ruff" check --cache-dir "$cache/ruff"
"$bin/ruff" format --check --cache-dir "$cache/ruff"
step "mypy --strict"
"$bin/mypy" --strict --cache-dir "$cache/mypy"
"$bin/python" tests/readme.py >"$work/of_readme.py"
MYPYPATH=src "$bin/mypy" --strict --cache-dir "$cache/mypy" "$work/of_readme.py"

step "the wheel"
"$bin/python" -m build --wheel --no-isolation --outdir "$work/wheel" . >"$work/build.log" || { cat "$work/build.log"; exit 1; }
wheel=$(echo "$work"/wheel/*.whl)

step "the quickstart in an empty environment"
"$python" -m venv "$work/empty"
"$work/empty/bin/pip" install -q "$wheel"
"$ROTA_BIN" dev --api "127.0.0.1:$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')" \
  >"$work/dev" 2>"$work/dev.log" &
dev=$!
for _ in $(seq 600); do grep -qs '^ready' "$work/dev" && break; sleep 0.1; done
grep -q '^ready' "$work/dev" || { echo "sdk-test-python: rota dev did not become ready" >&2; cat "$work/dev.log" >&2; exit 1; }
ROTA_ADDR=$(sed -n 's/^ready addr=//p' "$work/dev") "$work/empty/bin/python" examples/quickstart.py
step "the program of docs/guides/python.md, unchanged"
awk '/^## A worker in Python$/ { here = 1 } here && /^```python$/ { print_ = 1; next } print_ && /^```$/ { exit } print_' ../../docs/guides/python.md >"$work/guide.py"
ROTA_ADDR=$(sed -n 's/^ready addr=//p' "$work/dev")
export ROTA_ADDR
"$work/empty/bin/python" "$work/guide.py" >"$work/guide.log" 2>&1 &
guide=$!
for _ in $(seq 300); do "$ROTA_BIN" job show photo-4712 2>"$work/shown" | grep -q '640 pixels under' && break; sleep 0.1; done
kill "$guide"
wait "$guide" || { echo "sdk-test-python: the guide's program did not end well" >&2; cat "$work/guide.log" >&2; exit 1; }
"$ROTA_BIN" job show photo-4712 | grep '640 pixels under' >/dev/null || { cat "$work/shown" "$work/guide.log" >&2; exit 1; }
unset ROTA_ADDR
kill "$dev"
wait "$dev" 2>/dev/null || true
dev=

step "pytest, the newest releases"
"$bin/python" -m pip install -q --no-deps --force-reinstall --target "$work/new" "$wheel"
PYTHONPATH=$work/new "$bin/python" -m pytest -q -p no:cacheprovider "$@"

step "pytest, the oldest releases"
sed -E '/^(grpcio|protobuf|opentelemetry.*|types-grpcio)==/d' requirements-dev.txt >"$work/tools.txt"
old=$(environment old "$work/tools.txt" requirements-oldest.txt)
PYTHONPATH=$work/new "$old/python" -m pytest -q -p no:cacheprovider \
  -k 'not paused and not ten_thousand' "$@"
step "all is well"
