#!/usr/bin/env bash
# Packs what a CUDA machine without Node and without a network needs to run cuda.sh: this machine's Node and the
# packages that tests and benchmarks load, compressed, into .cuda/ (ignored by git, about 50 MB).
#
#   test/bench/cuda-pack.sh        then copy the checkout with .cuda/, and there: test/bench/cuda.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
[ -d node_modules ] || npm ci

mkdir -p .cuda
threads="-T$(nproc)"
# What the checks and the build use, and nothing that runs: left out.
tar --exclude='@biomejs' --exclude='@typescript' --exclude='typescript' --exclude='*.map' --exclude='*.d.ts' \
  --exclude='.cache' --exclude='.vite*' -cf - node_modules | xz -6 "$threads" >.cuda/node_modules.tar.xz.part
mv .cuda/node_modules.tar.xz.part .cuda/node_modules.tar.xz
cp "$(node -p 'process.execPath')" .cuda/node
strip .cuda/node 2>/dev/null || true
xz -6 "$threads" -c .cuda/node >.cuda/node.xz.part
mv .cuda/node.xz.part .cuda/node.xz
rm .cuda/node
ls -l .cuda
