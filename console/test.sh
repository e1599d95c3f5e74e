#!/usr/bin/env bash
# Rebuilds the console and compares it, byte by byte, with what is committed; then types, unit
# tests, and, if there is a Chromium, the end-to-end tests against real nodes.
#
# test.sh pictures takes the pictures of README.md again, into PICTURES_DOCS;
# test.sh budgets measures the budgets instead, and asserts none of them: the machine may be busy.
#
# Needs Node 20.19 or later with npm (NODE names a node); the end-to-end tests need the binary
# bin/rota (ROTA_BIN names another) and a Chromium (CHROMIUM names one).
set -euo pipefail
cd "$(dirname "$0")"

node=${NODE:-node}
if ! "$node" -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' 2>/dev/null ||
  ! command -v npm >/dev/null; then
  echo "console-test: NOT RUN: there is no Node 20.19 or later with npm; NODE can name one"
  exit 0
fi
step() { echo "== console-test: $*"; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

step "Node $("$node" --version), pinned packages"
./install.sh

chromium=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || true)}
case "${1:-}" in budgets | pictures)
  if [ -z "$chromium" ]; then
    echo "console-test: $1 are made in a browser: install Chromium (Debian: apt-get install chromium), or name one in CHROMIUM" >&2
    exit 1
  fi
  ;;
esac

if [ "${1:-}" = budgets ]; then
  export CHROMIUM=$chromium CHROMIUM_VERSION BUDGETS=1 BUDGETS_WRITE=${BUDGETS_WRITE-../docs/internals/console.md} ROTA_BIN
  CHROMIUM_VERSION=$("$chromium" --version | head -1 | xargs) ROTA_BIN=$(realpath "${ROTA_BIN:-../bin/rota}")
  exec npx --no-install playwright test
fi

if [ "${1:-}" = pictures ]; then
  export CHROMIUM=$chromium ROTA_BIN
  ROTA_BIN=$(realpath "${ROTA_BIN:-../bin/rota}")
  exec npx --no-install playwright test pictures
fi

step "the committed files are what the sources make"
npx --no-install vite build --logLevel warn --outDir "$work/dist"
diff -r dist "$work/dist" || { echo "console/dist is not what console/src makes: make console, and commit it" >&2; exit 1; }

step "types"
npm run --silent check
step "unit tests"
npx --no-install vitest run

if [ -z "$chromium" ]; then
  echo "console-test: NOT RUN end to end: there is no chromium; CHROMIUM can name one"
  exit 0
fi
ROTA_BIN=$(realpath "${ROTA_BIN:-../bin/rota}")
[ -x "$ROTA_BIN" ] || { echo "console-test: $ROTA_BIN is not there: make build" >&2; exit 1; }
step "end to end, with $chromium"
CHROMIUM=$chromium ROTA_BIN=$ROTA_BIN npx --no-install playwright test "$@"
step "all is well"
