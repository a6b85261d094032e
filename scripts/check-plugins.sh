#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check-plugins.sh BUILD: builds all plugins in a meson project of their own, against what BUILD installs and nothing else of
# this tree, and lets the installed `tenon` use them.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
. "$source/scripts/install-prefix.sh"
begin_check "$1" pkg-config meson ninja
install_prefix "$build" "$work" || die "meson install"
skip_sanitized "$libdir/libtenon.so"

alone=$work/alone
mkdir "$alone"
ln -s "$source/plugins" "$source/scripts" "$alone"
cp "$source/scripts/plugins-alone/meson.build" "$source/meson_options.txt" "$alone"
meson setup "$work/out" "$alone" >"$work/setup.log" 2>&1 || { cat "$work/setup.log"; die "meson setup"; }
ninja -C "$work/out" >"$work/ninja.log" 2>&1 || { cat "$work/ninja.log"; die "the plugins do not build alone"; }
# What the compiler really opened.
foreign=$(ninja -C "$work/out" -t deps | grep -E '/runtime/|\.\./include/' | sort -u || true)
[ -z "$foreign" ] || die "headers that are not installed: $foreign"

export LD_LIBRARY_PATH="$libdir"
set -- "$work"/out/plugins/*/*.so
[ -e "$1" ] || die "no plugin"
built=$#
for so in "$@"; do
  name=$(basename "$so" .so)
  [ -e "$libdir/tenon/plugins/$name.so" ] || die "$name is not built by the tree itself"
  set -- "$@" "$(dirname "$so")"
  shift
done
[ $built -eq "$(find "$libdir/tenon/plugins" -name '*.so' | wc -l)" ] ||
  die "the tree builds other plugins: $(ls "$libdir/tenon/plugins")"

# say_text PROFILE DIR...: text of the demo model by the plugins in these folders.
say_text() {
  profile=$1
  shift
  for dir in "$@"; do
    set -- "$@" --plugin-dir "$dir"
    shift
  done
  "$prefix/bin/tenon" run "$source/models/demo" -p "In the beginning" -n 16 --temp 0 --profile "$profile" "$@" \
    --cache-dir "$work/cache" 2>"$work/run.err" || { cat "$work/run.err" >&2; die "tenon run --profile $profile"; }
}
for profile in default npu-prefill; do
  a=$(say_text "$prefix/share/tenon/profiles/$profile.yaml" "$@")
  b=$(say_text "$prefix/share/tenon/profiles/$profile.yaml" "$libdir/tenon/plugins")
  [ -n "$a" ] && [ "$a" = "$b" ] || die "$profile: '$a', and with the tree's own plugins '$b'"
done
say "$built plugins, built from installed headers, say what the tree's own say"
