#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fixed.sh TENON WORKER PLUGIN TABLE: every mistake of the table is found by its case, and without one the whole kit passes.
set -u
. "$(dirname "$0")/../faults/planted/verdict.sh"
tenon=$1 worker=$2 plugin=$3 table=$4
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
bad=0 n=0
model=$(dirname "$0")/../../models/demo # for honesty/model
conform() {
  "$tenon" conform "$plugin" --worker "$worker" --model "$model" --seed 20260101 --patience 4 --jobs 2 --fail-fast "$@" > "$out" 2>&1
}
while read -r wrong case_name what; do
  case $wrong in '#'* | '') continue ;; esac
  n=$((n + 1))
  conform --option "wrong=$wrong" --case "$case_name" && passed=yes || passed=no
  judge "$wrong" "$case_name" "$what" "$passed" "^FAIL  " || bad=1
done < "$table"
if ! conform; then
  echo "with no mistake:"
  cat "$out"
  bad=1
fi
tail -n 1 "$out"
# What is claimed over caches alone has to be in the manifest too.
beside=$(mktemp -d) || exit 1
cp "$plugin" "$beside"
sed 's/TensorScatter, //' "${plugin%.so}.yaml" > "$beside/$(basename "$plugin" .so).yaml"
plugin=$beside/$(basename "$plugin")
if conform --case abi/manifest/ops || ! grep -q 'claims TensorScatter over caches' "$out"; then
  echo "a manifest without TensorScatter passes"
  bad=1
fi
rm -r "$beside"
echo "$n mistakes"
[ "$n" -gt 0 ] || bad=1
exit $bad
