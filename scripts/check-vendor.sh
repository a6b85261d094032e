#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check-vendor.sh BUILD: what a vendor does in an afternoon, with what BUILD installs and nothing else of this tree: `tenon
# new-plugin` and examples/vendor-backend are built as projects of their own, pass their levels of `tenon conform`, and the
# second runs the products of the demo model.
set -eu
unset TENON_PLUGIN_PATH TENON_PROFILE_PATH TENON_PROFILE TENON_CACHE_DIR TENON_LOG
source=$(cd "$(dirname "$0")/.." && pwd)
. "$source/scripts/install-prefix.sh"
begin_check "$1" pkg-config meson ninja
install_prefix "$build" "$work" || die "meson install"
skip_sanitized "$libdir/libtenon.so"
export LD_LIBRARY_PATH="$libdir" PATH="$prefix/bin:$PATH" TENON_CACHE_DIR="$work/cache"

conform() { tenon conform "$@" --seed 1 >"$work/log" 2>&1 || { cat "$work/log"; die "tenon conform $*"; }; tail -1 "$work/log"; }

cd "$work"
tenon new-plugin my-npu || die "tenon new-plugin"
build_alone my-npu
conform my-npu/build/my-npu.so --level abi

cp -R "$prefix/share/tenon/examples/vendor-backend" acme
[ "$(wc -l <acme/acme.c)" -lt 550 ] || die "acme.c has 550 lines or more"
build_alone acme
conform acme/build/acme.so --level matmul
conform acme/build/acme-ops.so --level abi
cp -R "$prefix/share/tenon/examples/queue-backend" belt
build_alone belt
conform belt/build/belt.so --level claimed
grep -q '^skip  life/cancel-items\|^skip  life/lost\|^skip  life/items' "$work/log" && die "belt's engine is not asked"
tenon run "$source/models/demo" -p "In the beginning" -n 16 --temp 0 --profile acme/acme-profile.yaml \
  --plugin-dir "$work/acme/build" >out 2>err || { cat err; die "tenon run"; }
grep -q '^placement: acme 2[0-9] nodes' err || { cat err; die "not all products are acme's"; }
[ -s out ] || die "no text"
# a bundle of a prefix that the system's loader does not know
tenon bundle "$source/models/demo" -o bundled --profile acme/acme-profile.yaml --plugin-dir "$work/acme/build" >log 2>&1 ||
  { cat log; die "tenon bundle"; }
env -u LD_LIBRARY_PATH bundled/run.sh -p "In the beginning" -n 16 --temp 0 >again 2>err || { cat err; die "the bundle"; }
cmp out again || die "the bundle says something else"
say "my-npu passes level abi, acme level matmul, belt level claimed, and the demo model says with it: $(tr '\n' ' ' <out)"
