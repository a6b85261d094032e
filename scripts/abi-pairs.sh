#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# abi-pairs.sh BUILD: hosts and plugins of two header versions together. The second version is made here: the same tree with
# a field of 64 bytes appended to every growing struct of the ABI, and the next minor. Hosts and plugins of BUILD and of that
# must say the same text in all four pairs; a struct that one side copies whole, or an array of structs, breaks them.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
. "$source/scripts/install-prefix.sh"
begin_check "$1" meson ninja
skip_sanitized "$build/runtime/libtenon.so"

rm -rf "$work"
mkdir -p "$work/tree"
for part in LICENSE cmake docs meson.build meson_options.txt include runtime plugins static configs scripts bench examples tests; do
  cp -R "$source/$part" "$work/tree/"
done
grow='
/^(typedef )?struct tn_[a-z0-9_]+ \{$/ { inside = 1; growing = 0 }
inside && /^ +tn_hdr h;/ { growing = 1 }
inside && /^\}/ { if (growing) { print "  uint8_t grown[64];"; n++ } inside = 0 }
{ print }
END { print n + 0 > count }'
total=0
for h in types format graph plugin offline power; do
  awk -v count="$work/count" "$grow" "$source/include/tenon/$h.h" >"$work/tree/include/tenon/$h.h"
  total=$((total + $(cat "$work/count")))
done
all=$(cat "$source"/include/tenon/types.h "$source"/include/tenon/format.h "$source"/include/tenon/graph.h "$source"/include/tenon/plugin.h \
  "$source"/include/tenon/offline.h "$source"/include/tenon/power.h |
  grep -c '^  tn_hdr h;')
[ "$total" -eq "$all" ] && [ "$total" -ge 30 ] || die "$total of $all structs grew: the headers are written otherwise than this script reads them"
minor=$(sed -n 's/^#define TN_ABI_MINOR \([0-9]*\)$/\1/p' "$source/include/tenon/plugin.h")
sed -i "s/^#define TN_ABI_MINOR .*/#define TN_ABI_MINOR $((minor + 1))/" "$work/tree/include/tenon/plugin.h"
say "$total structs grew, minor $((minor + 1))"

meson setup "$work/out" "$work/tree" -Dtests=disabled -Dbench=disabled -Dbuildtype=plain -Dc_args=-O1 >"$work/setup.log" 2>&1 ||
  { cat "$work/setup.log"; die "meson setup"; }
ninja -C "$work/out" >"$work/ninja.log" 2>&1 || { grep -m 20 -E 'error|FAILED' "$work/ninja.log"; die "it does not build with grown structs"; }

# text HOST PLUGINS PROFILE
text() {
  host=$1 plugins=$2 profile_file=$source/configs/$3.yaml
  set --
  for so in "$plugins"/plugins/*/*.so; do set -- "$@" --plugin-dir "$(dirname "$so")"; done
  "$host/runtime/cli/tenon" run "$source/models/demo" -p "In the beginning" -n 12 --temp 0 --ids --profile "$profile_file" "$@" \
    --cache-dir "$work/cache" 2>"$work/err" || { cat "$work/err" >&2; return 1; }
}
# pair HOST PLUGINS: with the profile at hand, HOST says with PLUGINS what is wanted.
pair() {
  got=$(text "$1" "$2" "$profile") || die "$profile, host $1 and plugins $2"
  [ "$got" = "$want" ] || die "$profile, host $1 and plugins $2: '$got', not '$want'"
  pairs=$((pairs + 1))
}
pairs=0
for profile in ${TENON_PAIR_PROFILES:-default npu-prefill opencl-adreno opencl-mali}; do
  if ! want=$(text "$build" "$build" "$profile" 2>/dev/null); then
    say "$profile: not here: $(tail -1 "$work/err")"
    continue
  fi
  pair "$work/out" "$build"
  pair "$build" "$work/out"
  pair "$work/out" "$work/out"
  say "$profile: old and new hosts and plugins say the same"
done
[ $pairs -ge 6 ] || die "only $pairs pairs ran"
rm -rf "$work/out" "$work/tree"
say "$pairs pairs"
