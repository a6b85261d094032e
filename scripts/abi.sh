#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# abi.sh [--accept] [BUILD]: the public headers against tests/abi/tenon.abi, by abidiff: every type of plugin.h and every function of
# tenon.h, lm.h, tasks.h and bundle.h; with BUILD also what its libtenon.so exports, and its soname, against tests/abi/libtenon.abi. Ends with 1
# where they differ, with the report; --accept writes what is there now, which belongs in one commit with a line in CHANGELOG.md.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
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
  echo '#include <tenon/offline.h>'
  echo '#include <tenon/power.h>'
  echo '#include <tenon/tasks.h>'
  echo '#include <tenon/bundle.h>'
  echo '#include <tenon/lm.h>'
  echo 'tn_entry_v1 surface_entry;'
  echo 'tn_static_plugin surface_static;'
  echo 'tn_offline surface_offline;'
  echo 'tn_power surface_power;'
  sed -n 's/^TN_API.*[ *]\(tn_[a-z0-9_]*\)(.*/__typeof__(\1) *surface_\1;/p' "$source/include/tenon/tenon.h" "$source/include/tenon/tasks.h" "$source/include/tenon/bundle.h" "$source/include/tenon/lm.h"
} >"$work/surface.c"
gcc -std=gnu11 -g -O0 -shared -fPIC -I"$source/include" "$work/surface.c" -o "$work/surface.so"
abidw --no-corpus-path --no-comp-dir-path --no-show-locs --out-file "$work/tenon.abi" "$work/surface.so"
for name in tn_host tn_device tn_plugin tn_format tn_offline tn_power tn_runtime_opts; do # or it looked at nothing
  grep -q "name='$name'" "$work/tenon.abi" || { say "FAILED: $name is not in what abidw wrote"; exit 1; }
done
accept=
[ "${1:-}" = --accept ] && { accept=1; shift; }
status=0

# compare NAME: $work/NAME against the reference, or in its place.
compare() {
  [ -n "$accept" ] && { cp "$work/$1" "$source/tests/abi/$1"; say "wrote tests/abi/$1"; return; }
  diff=0
  abidiff --no-show-locs "$source/tests/abi/$1" "$work/$1" || diff=$?
  [ $diff -eq 0 ] && { say "$1: no change"; return; }
  status=1
  [ $((diff & 3)) -ne 0 ] && { say "$1: abidiff failed ($diff)"; return; }
  [ $((diff & 8)) -ne 0 ] && say "$1: an INCOMPATIBLE change" || say "$1: a change"
  say "if it is meant: scripts/abi.sh --accept [BUILD], and a line in CHANGELOG.md"
}
compare tenon.abi

if [ -n "${1:-}" ]; then
  library=$1/runtime/libtenon.so
  if nm -D "$library" | grep -q ' U __\(asan\|tsan\|ubsan\)_'; then
    say "libtenon.so: not looked at, a sanitizer's build"
  else
    # Without types, which are the headers' affair: they would differ from compiler to compiler.
    strip -g -o "$work/libtenon.so" "$library"
    abidw --no-corpus-path --no-comp-dir-path --no-show-locs --out-file "$work/all.abi" "$work/libtenon.so"
    sed '/<elf-needed>/,/<\/elf-needed>/d' "$work/all.abi" >"$work/libtenon.abi" # what it links is no promise
    [ "$(grep -c "<elf-symbol name='tn_" "$work/libtenon.abi")" -gt 30 ] || { say "FAILED: libtenon.so exports hardly anything"; exit 1; }
    compare libtenon.abi
  fi
fi
exit $status
