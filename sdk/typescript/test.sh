#!/usr/bin/env bash
# All tests of the TypeScript SDK: generated code compared, tsc, eslint, node's test runner over
# real nodes, and the package in an empty project, where the quickstart runs.
#
# Needs Node 20 or later with npm (NODE names a node), and the binary bin/rota (ROTA_BIN names
# another). Arguments go to the test runner.
set -euo pipefail
cd "$(dirname "$0")"

node=${NODE:-node}
if ! "$node" -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null || ! command -v npm >/dev/null; then
  echo "sdk-test-typescript: NOT RUN: there is no Node 20 or later with npm; NODE can name one"
  exit 0
fi

ROTA_BIN=$(realpath "${ROTA_BIN:-../../bin/rota}")
export ROTA_BIN
[ -x "$ROTA_BIN" ] || { echo "sdk-test-typescript: $ROTA_BIN is not there: make build" >&2; exit 1; }

work=$(mktemp -d)
trap '[ -z "${dev:-}" ] || kill "$dev" 2>/dev/null || true; rm -rf "$work"' EXIT
step() { echo "== sdk-test-typescript: $*"; }

step "Node $("$node" --version), pinned packages"
if grep -q '"resolved"' package-lock.json; then
  echo "package-lock.json names the addresses of a registry: install with the .npmrc of this folder" >&2
  exit 1
fi
stamp=$(cat package-lock.json package.json | sha256sum | cut -c1-16)
if [ "$(cat node_modules/.stamp 2>/dev/null)" != "$stamp" ]; then
  npm ci --ignore-scripts --no-progress >"$work/npm.log" 2>&1 || { cat "$work/npm.log"; exit 1; }
  echo "$stamp" >node_modules/.stamp
fi

step "generated code"
cp -r src/gen "$work/gen"
npx --no-install buf generate
diff -r "$work/gen" src/gen || { echo "src/gen was not what the .proto files make: it is now, look at the difference" >&2; exit 1; }

step tsc
rm -rf dist build
npx --no-install tsc -p tsconfig.json
npx --no-install tsc -p tsconfig.test.json
step eslint
npx --no-install eslint .

step "the package in an empty project"
npm pack --silent --pack-destination "$work" >/dev/null
mkdir "$work/empty"
cp .npmrc "$work/empty"
cp examples/quickstart.ts "$work/empty/quickstart.ts"
(
  cd "$work/empty"
  echo '{"name":"empty","version":"1.0.0","private":true,"type":"module"}' >package.json
  npm install --ignore-scripts --no-progress --prefer-offline "$work"/rotasched-client-*.tgz >"$work/npm.log" 2>&1 || { cat "$work/npm.log"; exit 1; }
)
# The README's files, each named in its first line.
awk -v dir="$work/empty/" '/^```/ { file = ""; first = /^```ts$/; next } first && /^\/\/ [a-z]+\.ts/ { file = dir $2; sub(/:$/, "", file) } { first = 0 } file { print >file }' README.md
ln -s "$PWD/node_modules/zod" "$work/empty/node_modules/zod"
# What a user's compiler sees is the package as it is installed.
npx --no-install tsc --strict --target es2022 --module nodenext --types node --typeRoots "$PWD/node_modules/@types" "$work"/empty/{quickstart,jobs,worker,submit}.ts
port=$("$node" -e 'const s = require("net").createServer(); s.listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); })')
"$ROTA_BIN" dev --api "127.0.0.1:$port" >"$work/dev" 2>"$work/dev.log" &
dev=$!
for _ in $(seq 300); do grep -q '^ready' "$work/dev" && break; sleep 0.1; done
ROTA_ADDR=$(sed -n 's/^ready addr=//p' "$work/dev") "$node" "$work/empty/quickstart.js"
kill "$dev"
wait "$dev" 2>/dev/null || true
dev=

step "node's test runner"
"$node" --test --test-concurrency=2 --test-reporter=spec "$@" build/test/*.test.js
step "all is well"
