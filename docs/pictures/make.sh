#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# docs/pictures/make.sh TENON: draws one Llama block as it comes from the file and after all passes, into this folder.
# Needs Graphviz (dot) and a Python with numpy and onnx (TENON_BENCH_PYTHON).
set -eu
tenon=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${TENON_BENCH_PYTHON:-python3}" "$here/../../bench/make_llama.py" "$work/one" --layers 1 --dim 64 --heads 4 --kv-heads 2 \
  --ffn 128 --vocab 64 --single-file
export TENON_PROFILE_PATH="$here/../../configs"
"$tenon" inspect "$work/one" --profile host --disable-pass all --dump "$work/before.dot" | grep '^nodes'
"$tenon" inspect "$work/one" --profile host --dump "$work/after.dot" | grep '^nodes'
for picture in before after; do
  dot -Tsvg "$work/$picture.dot" -o "$here/llama-$picture.svg"
done
