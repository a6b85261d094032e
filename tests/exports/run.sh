#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh TENON MODELS.tar.xz COUNT [NAME...]: every export of the archive (or those that are named) against its goldens.
# COUNT: how many the archive holds at least, so that an empty one is no success.
#
# Bound: a sum of K <= 128 products in f32 is off by at most K * 2^-24 of its largest, and some 25 operators of that kind
# stand behind one another: 2e-4 of values around 1. A file `bound` beside a model of halves says its own.
set -eu
tenon=$1 archive=$2 count=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
xz -dc "$archive" | tar -xf - -C "$work"
export TENON_CACHE_DIR="$work/cache"
n=0 failed=0
for folder in "$work"/*/; do
  name=$(basename "$folder")
  if [ $# -gt 0 ]; then case " $* " in *" $name "*) ;; *) continue ;; esac; fi
  [ "$name" = cache ] && continue
  n=$((n + 1))
  sets=$(ls -d "$folder"test_data_set_* | wc -l)
  rtol=1e-3 atol=2e-4
  [ ! -f "$folder/bound" ] || read -r rtol atol <"$folder/bound"
  if out=$("$tenon" verify "$folder/model.onnx" --data "$folder" --profile host --rtol "$rtol" --atol "$atol" 2>&1); then
    case $out in
      *"not compared"*) echo "$name: FAILED, an output has no golden"; failed=$((failed + 1)) ;;
      *"
$sets data sets, 0 failed"*) echo "$name: $sets sets" ;;
      *) echo "$name: FAILED, not all of its $sets sets were run: $(echo "$out" | tail -1)"; failed=$((failed + 1)) ;;
    esac
  else
    echo "$name: FAILED"
    echo "$out" | grep -v ' ok ' | head -8
    failed=$((failed + 1))
  fi
done
echo "$n exports, $failed failed"
[ $# -gt 0 ] || [ "$n" -ge "$count" ] || { echo "the archive should hold $count"; exit 1; }
[ "$n" -gt 0 ] && [ "$failed" -eq 0 ]
