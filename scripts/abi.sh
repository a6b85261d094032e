#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# abi.sh [--accept]: the public headers against tests/abi/tenon.abi, by abidiff: every type of plugin.h and every function of
# tenon.h and tasks.h. Ends with 1 where they differ, with the report; --accept writes what is there now, which belongs in one commit with
# a line in CHANGELOG.md.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
reference=$source/tests/abi/tenon.abi
say() { echo "abi: $*"; }
for tool in abidw abidiff gcc; do
  command -v $tool >/dev/null || { say "skipped: $tool is not there (Debian: abigail-tools)"; exit 77; }
done
[ "$(uname -m)" = x86_64 ] || { say "skipped: the reference is of x86-64"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One variable per function and one of the type that all of plugin.h hangs on; nothing is linked.
{
  echo '#include <tenon/plugin.h>'
  echo '#include <tenon/tasks.h>'
  echo 'tn_entry_v1 surface_entry;'
  echo 'tn_static_plugin surface_static;'
  sed -n 's/^TN_API.*[ *]\(tn_[a-z0-9_]*\)(.*/__typeof__(\1) *surface_\1;/p' "$source/include/tenon/tenon.h" "$source/include/tenon/tasks.h"
} >"$work/surface.c"
gcc -std=gnu11 -g -O0 -shared -fPIC -I"$source/include" "$work/surface.c" -o "$work/surface.so"
abidw --no-corpus-path --no-comp-dir-path --no-show-locs --out-file "$work/tenon.abi" "$work/surface.so"
for name in tn_host tn_device tn_plugin tn_format tn_runtime_opts; do # or it looked at nothing
  grep -q "name='$name'" "$work/tenon.abi" || { say "FAILED: $name is not in what abidw wrote"; exit 1; }
done
if [ "${1:-}" = --accept ]; then
  cp "$work/tenon.abi" "$reference"
  say "wrote tests/abi/tenon.abi"
  exit 0
fi
status=0
abidiff --no-show-locs "$reference" "$work/tenon.abi" || status=$?
[ $status -eq 0 ] && { say "no change"; exit 0; }
[ $((status & 3)) -ne 0 ] && { say "abidiff failed ($status)"; exit 1; }
[ $((status & 8)) -ne 0 ] && say "an INCOMPATIBLE change" || say "a change"
say "if it is meant: scripts/abi.sh --accept, and a line in CHANGELOG.md"
exit 1
