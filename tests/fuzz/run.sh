#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD HOURS [FOLDER]: every target of a build with -Dfuzz=enabled at once, each in one process of the lowest
# priority, for that long. Corpora are kept in FOLDER (default /tmp/tenon-fuzz)/TARGET/corpus, merged and minimised at the
# end; what went wrong lies in TARGET/found. TENON_TEST_PYTHON: a Python with onnx, for the first inputs. Exit 1: findings.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd) hours=$2 top=${3:-/tmp/tenon-fuzz}
options='-rss_limit_mb=2048 -malloc_limit_mb=0 -timeout=120 -max_len=8192 -print_funcs=0'
seconds=$(awk "BEGIN {print int($hours * 3600)}")
mkdir -p "$top"
[ -d "$top/seeds" ] || "${TENON_TEST_PYTHON:-python3}" "$here/seeds.py" "$top/seeds" "$here/../../models" \
  "${TENON_TEST_DATA:-$build/tests/data}"
one() {
  mkdir -p "$top/$1/corpus" "$top/$1/found" "$top/seeds/$1"
  cd "$top/$1"
  # shellcheck disable=SC2086
  nice -n 19 chrt -i 0 "$build/tests/fuzz/fuzz_$1" -fork=1 -ignore_crashes=1 -ignore_timeouts=1 -ignore_ooms=1 $options \
    -max_total_time="$seconds" -artifact_prefix=found/ corpus "$top/seeds/$1" "$here/corpus/$1" >log 2>&1 || true
  rm -rf merged && mkdir merged
  # shellcheck disable=SC2086
  nice -n 19 "$build/tests/fuzz/fuzz_$1" $options -merge=1 merged corpus >merge.log 2>&1 && rm -rf corpus && mv merged corpus
}
for target in import shapes host models files tokenizer wire; do
  (
    one "$target"
    # The second line: user and system time of what the shell ran.
    times | tail -n 1 >"$top/$target/time"
  ) &
done
wait
rm -rf /dev/shm/tenon-fuzz-*
bad=0
for target in import shapes host models files tokenizer wire; do
  n=$(find "$top/$target/found" -type f | wc -l)
  echo "$target: $n found, processor time (user, system) $(cat "$top/$target/time"), corpus $(find "$top/$target/corpus" -type f | wc -l)"
  [ "$n" -eq 0 ] || bad=1
done
exit $bad
