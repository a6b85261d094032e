#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bench/start.sh TENON FOLDER [PROFILE]: start times of a model with 1 GB of f32 weights, first (packing) and second
# (mapping), and the private memory of `tenon inspect` on a single file of that size. Makes the models in FOLDER when
# they are not there (2 GB). TENON_BENCH_PYTHON: a Python with numpy and onnx. Exits 1 when a promise is not kept.
set -eu
tenon=$1
folder=$2
profile=${3:-default}
here=$(cd "$(dirname "$0")" && pwd)
python=${TENON_BENCH_PYTHON:-python3}
shape="--layers 5 --dim 2048 --heads 32 --kv-heads 8 --ffn 5632 --vocab 4096"
mkdir -p "$folder"
# shellcheck disable=SC2086
[ -e "$folder/external/config.json" ] || "$python" "$here/make_llama.py" "$folder/external" $shape
# shellcheck disable=SC2086
[ -e "$folder/single/config.json" ] || "$python" "$here/make_llama.py" "$folder/single" $shape --single-file
now() { date +%s%N; }
cache=$folder/cache
rm -rf "$cache"

start() { # label
  t0=$(now)
  "$tenon" run "$folder/external" -p "In the beginning" -n 1 --temp 0 --ids --profile "$profile" --cache-dir "$cache" \
    >"$folder/$1.out" 2>"$folder/$1.err" || { cat "$folder/$1.err"; exit 1; }
  t1=$(now)
  echo "$1 start, one token: $(((t1 - t0) / 1000000)) ms"
}
stamp() { find "$cache" -type f ! -name '*.lock' -exec stat -c '%n %i %s %Y' {} + 2>/dev/null | sort; }

start first
before=$(stamp)
[ -n "$before" ] || echo "note: nothing was packed (profile $profile has no device with a weight format here)"
start second
[ "$before" = "$(stamp)" ] || { echo "FAILED: the second start wrote packed weights"; exit 1; }
cmp -s "$folder/first.out" "$folder/second.out" || { echo "FAILED: the second start says something else"; exit 1; }
[ -z "$before" ] || echo "second start packed nothing: $(echo "$before" | awk '{n++; b += $3} END {print n " file(s), " b / 1e6 " MB, unchanged"}')"

# Largest RssAnon while inspect runs; sampled, so a bound from below. VmHWM would count the mapped file too.
"$tenon" inspect "$folder/single" --profile "$profile" >"$folder/inspect.out" 2>&1 &
pid=$!
anon=0
while [ -r /proc/$pid/status ] && kill -0 $pid 2>/dev/null; do
  v=$(awk '/^RssAnon/ {print $2}' /proc/$pid/status 2>/dev/null || true)
  [ -z "$v" ] || [ "$v" -le "$anon" ] || anon=$v
done
wait $pid || { cat "$folder/inspect.out"; exit 1; }
size=$(stat -c %s "$folder/single/model.onnx")
echo "inspect of a single file of $((size / 1000000)) MB: at most $((anon / 1024)) MiB private memory seen"
[ "$anon" -lt 65536 ] || { echo "FAILED: 64 MiB are promised"; exit 1; }
