#!/usr/bin/env bash
# Installs the pinned packages of the console, once for each lock file.
set -euo pipefail
cd "$(dirname "$0")"

if grep -q '"resolved"' package-lock.json; then
  echo "package-lock.json names the addresses of a registry: install with the .npmrc of this folder" >&2
  exit 1
fi
stamp=$(cat package-lock.json package.json | sha256sum | cut -c1-16)
if [ "$(cat node_modules/.stamp 2>/dev/null)" != "$stamp" ]; then
  log=$(mktemp)
  npm ci --ignore-scripts --no-progress >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
  rm "$log"
  echo "$stamp" >node_modules/.stamp
fi
