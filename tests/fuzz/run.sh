#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD SECONDS [TARGET...]: fuzz targets of a build with -Dfuzz=enabled in turns of SLICE (60) seconds, one process
#   of the lowest priority at a time, until they have used so much processor time. It may be stopped and goes on where it was.
# run.sh BUILD --keep [TARGET...]: minimises the corpora and brings them, and what was counted, into the repository.
#
# FOLDER (default /tmp/tenon-fuzz) has TARGET/corpus, which begins as tests/fuzz/corpora/TARGET.tar.xz, TARGET/found, TARGET/log,
# and slices.tsv. tests/fuzz/hours.tsv is its sum by target and commit. The target `graphs` is random graphs beside
# onnxruntime (tests/shape/random_shapes.py). TENON_TEST_PYTHON: a Python with onnx and onnxruntime. Exit 1: findings.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
build=$(cd "$1" && pwd) seconds=$2
shift 2
top=${FOLDER:-/tmp/tenon-fuzz} slice=${SLICE:-60} python=${TENON_TEST_PYTHON:-python3}
# Slow is judged by the targets, in processor time (engine.h); libFuzzer's own clock is the wall's.
options='-rss_limit_mb=2048 -malloc_limit_mb=0 -timeout=1200 -report_slow_units=1200 -max_len=8192 -print_funcs=0'
[ $# -gt 0 ] || set -- import shapes host models wire tokenizer jinja grammar files packed tensors graphs
mkdir -p "$top"
[ -d "$top/seeds" ] || "$python" "$here/seeds.py" "$top/seeds" "$source/models" "${TENON_TEST_DATA:-$build/tests/data}"
commit=$(git -C "$source" rev-parse --short=9 HEAD)

found() { find "$top"/*/found -type f 2>/dev/null | wc -l; }
used() { awk '{s += $3} END {print int(s)}' "$top/slices.tsv" 2>/dev/null || echo 0; }
log_slice() { # TARGET INPUTS FINDINGS, after a shell that ran one thing and wrote its times
  s=$(awk 'NR == 2 {for (i = 1; i <= 2; i++) {split($i, t, /[ms]/); s += t[1] * 60 + t[2]}; printf "%.1f", s}' "$top/$1/times")
  printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$commit" "$s" "$2" "$3" "$(date -u +%F)" >>"$top/slices.tsv"
}

graphs() { # a seed that was not used before
  seed=$(($(awk '$1 == "graphs"' "$top/slices.tsv" 2>/dev/null | wc -l) + 1000 * $(date -u +%j)))
  (
    nice -n 19 "$python" "$source/tests/shape/random_shapes.py" "$build/tests/shape/shape-run" "$source/configs" --graphs 150 \
      --seed "$seed" --keep "$top/graphs/kept" >"$top/graphs/log" 2>&1 || true
    times >"$top/graphs/times"
  )
  n=$(sed -n 's/^\([0-9]*\) graphs, .*/\1/p' "$top/graphs/log")
  bad=$(sed -n 's/.* \([0-9]*\) graphs wrong$/\1/p' "$top/graphs/log")
  [ "${bad:-1}" = 0 ] || cp "$top/graphs/log" "$top/graphs/found/seed-$seed"
  log_slice graphs "${n:-0}" "${bad:-1}"
}

libfuzzer() { # TARGET
  dir=$top/$1
  mkdir -p "$top/seeds/$1"
  before=$(find "$dir/found" -type f | wc -l)
  dict=$here/$1.dict
  (
    cd "$dir"
    # shellcheck disable=SC2086,SC2046
    nice -n 19 "$build/tests/fuzz/fuzz_$1" $options $([ ! -e "$dict" ] || echo "-dict=$dict") -print_final_stats=1 \
      -max_total_time="$slice" -artifact_prefix=found/ corpus "$top/seeds/$1" "$here/corpus/$1" >log.now 2>&1 || true
    times >times
    tail -c 20000 log.now >>log
  )
  n=$(sed -n 's/^stat::number_of_executed_units: *//p' "$dir/log.now")
  log_slice "$1" "${n:-0}" $(($(find "$dir/found" -type f | wc -l) - before))
}

begin() { # TARGET
  mkdir -p "$top/$1/found"
  [ -d "$top/$1/corpus" ] && return
  mkdir -p "$top/$1/corpus"
  [ ! -e "$here/corpora/$1.tar.xz" ] || tar -C "$top/$1/corpus" -xf "$here/corpora/$1.tar.xz"
}

keep() { # TARGET
  [ "$1" != graphs ] || return 0
  rm -rf "$top/$1/merged"
  mkdir -p "$top/$1/merged" "$here/corpora"
  # shellcheck disable=SC2086
  (cd "$top/$1" && nice -n 19 "$build/tests/fuzz/fuzz_$1" $options -merge=1 merged corpus >merge.log 2>&1)
  rm -rf "$top/$1/corpus"
  mv "$top/$1/merged" "$top/$1/corpus"
  tar -C "$top/$1/corpus" --sort=name --owner=0 --group=0 --mtime=2000-01-01 -cf - . | xz -9e >"$here/corpora/$1.tar.xz"
  echo "$1: $(find "$top/$1/corpus" -type f | wc -l) inputs, $(wc -c <"$here/corpora/$1.tar.xz") bytes"
}

if [ "$seconds" = --keep ]; then
  for target in "$@"; do keep "$target"; done
  [ ! -e "$top/slices.tsv" ] || mv "$top/slices.tsv" "$top/slices.counted"
  { grep -v '^#' "$here/hours.tsv" 2>/dev/null || :; cat "$top/slices.counted" 2>/dev/null || :; } | awk -F'\t' -v OFS='\t' '
    {k = $1 OFS $2; s[k] += $3; n[k] += $4; f[k] += $5; if ($6 > d[k]) d[k] = $6}
    END {for (k in s) print k, sprintf("%.1f", s[k]), n[k], f[k], d[k]}' | sort -t"$(printf '\t')" -k6,6 -k1,2 >"$top/hours"
  { printf '# target\tcommit\tprocessor seconds\tinputs\tfindings\tlast day\n'; cat "$top/hours"; } >"$here/hours.tsv"
  rm -f "$top/slices.counted"
  exit 0
fi
for target in "$@"; do begin "$target"; done
touch "$top/slices.tsv"
until=$(($(used) + seconds))
while [ "$(used)" -lt "$until" ]; do
  for target in "$@"; do
    [ "$(used)" -lt "$until" ] || break
    if [ "$target" = graphs ]; then graphs; else libfuzzer "$target"; fi
  done
done
rm -rf /dev/shm/tenon-fuzz-*
awk -F'\t' '{s[$1] += $3; n[$1] += $4; f[$1] += $5} END {for (t in s) print t ": " s[t] " s, " n[t] " inputs, " f[t] " found"}' "$top/slices.tsv"
[ "$(found)" = 0 ]
