#!/usr/bin/env bash
# Packs what a CUDA machine without Node and without a network needs to run cuda.sh: this machine's Node and the
# packages that tests, training and benchmarks load and the built program, compressed, into .cuda/ (ignored by git, about 50 MB).
#
#   test/bench/cuda-pack.sh        then copy the checkout with .cuda/, and there: test/bench/cuda.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
[ -d node_modules ] || npm ci

mkdir -p .cuda
# One thread: blocks of several compress less. The filter for x86 code makes programs 4 % smaller.
squeeze() { xz --x86 --lzma2=preset=9e,dict=128MiB -c >"$1.part" && mv "$1.part" "$1"; }
# Left out: what only checks, builds or compares with other runtimes, and fonts that no plot is drawn with.
packages=(@biomejs @huggingface/transformers @img @typescript @types assemblyscript binaryen bintrees/test esbuild/bin
  'lightningcss-*' onnxruntime-common onnxruntime-node onnxruntime-web openai typescript)
files=('DejaVu*Serif*' 'DejaVu*Condensed*' 'DejaVu*Oblique*' 'vega*schema.json' 'vega*.min.js' 'tf-*.min.js' tf-core.js tf-backend-cpu.js tf-backend-wasm.js '*_test.js' miniprogram '*.es2017.*' '*.fesm.*' protobufjs/dist '*cover.txt' 'status.txt' '*.md' zod/src
  node_modules/hono/dist/cjs node_modules/@huggingface/hub/dist/browser vega/build/vega.js '*.map' '*.d.ts' '*.d.cts' '*.d.mts' .cache '.vite*')
tar "${packages[@]/#/--exclude=node_modules/}" "${files[@]/#/--exclude=}" -cf - node_modules |
  squeeze .cuda/node_modules.tar.xz
# What processes of --processes run.
npm run build >/dev/null
tar --exclude='*.map' --exclude=dist/page --exclude=dist/policies -cf - dist | squeeze .cuda/dist.tar.xz
cp "$(node -p 'process.execPath')" .cuda/node
strip .cuda/node 2>/dev/null || true
squeeze .cuda/node.xz <.cuda/node
rm .cuda/node
ls -l .cuda
