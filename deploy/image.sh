#!/bin/sh
# Makes what the image holds, in a folder: the compiled JavaScript, the workflow bundle, and the packages that production
# needs. Run by the Dockerfile, and by tests without Docker. The development packages must be installed where it runs.
set -eu

target=${1:?the folder to make}
mkdir -p "$target"
target=$(cd "$target" && pwd)
cd "$(dirname "$0")/.."
# The Node of the development packages: the machine's own may be too old.
PATH="$PWD/node_modules/.bin:$PATH"
tsc -p tsconfig.build.json --outDir "$target/dist" --declaration false --sourceMap false
chmod +x "$target/dist/cli/main.js"
cp package.json package-lock.json .npmrc "$target/"
node scripts/bundle.ts "$target/workflow-bundle"
(cd "$target" && npm ci --omit=dev --ignore-scripts --no-audit --no-fund "${NPM_FLAGS:---prefer-offline}")

# The SDK's core comes for all platforms at once; the image needs its own.
if [ "$(uname -s)" = Linux ]; then
  for release in "$target"/node_modules/@temporalio/core-bridge/releases/*; do
    case $(basename "$release") in
      "$(uname -m)"-*-linux-*) ;;
      *) rm -r "$release" ;;
    esac
  done
fi
