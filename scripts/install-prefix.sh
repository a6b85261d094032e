# SPDX-License-Identifier: Apache-2.0
# Sourced by the checks of what is installed, with the script's own name in $0.
# begin_check BUILD TOOL...: sets build and work (BUILD/NAME), and the name that say and die print; exit 77 where a tool is not there.
# install_prefix BUILD WORK: BUILD as it installs itself, under WORK/prefix; sets prefix, libdir and PKG_CONFIG_PATH.
# build_alone FOLDER: a project of its own, with no warning, from installed headers only.
# skip_sanitized LIBRARY: exit 77 where it wants a sanitizer's runtime, which what is built here has not.

begin_check() {
  build=$(cd "$1" && pwd)
  check=$(basename "$0" .sh)
  work=$build/$check
  shift
  for tool in "$@"; do
    command -v "$tool" >/dev/null || { say "skipped: $tool is not there"; exit 77; }
  done
}
say() { echo "$check: $*"; }
die() { say "FAILED: $*" >&2; exit 1; }

skip_sanitized() {
  if nm -D "$1" | grep -q ' U __\(asan\|tsan\|ubsan\)_'; then
    say "skipped: the library wants a sanitizer's runtime"
    exit 77
  fi
}

install_prefix() {
  rm -rf "$2"
  mkdir -p "$2"
  # The build folder has a prefix already; what it installs there is copied to ours.
  conf=$(meson introspect "$1" --buildoptions | tr '{' '\n' | sed -n 's/.*"name": "prefix", "value": "\([^"]*\)".*/\1/p' | head -1)
  DESTDIR=$2/dest meson install -C "$1" --no-rebuild --quiet >"$2/install.log" 2>&1 || { cat "$2/install.log"; return 1; }
  prefix=$2/prefix
  mv "$2/dest$conf" "$prefix"
  pc=$(find "$prefix" -name tenon.pc)
  [ -n "$pc" ] || { echo "no tenon.pc"; return 1; }
  grep -q '^prefix=${pcfiledir}' "$pc" || { echo "tenon.pc names a place: configure with -Dpkgconfig.relocatable=true"; return 1; }
  PKG_CONFIG_PATH=$(dirname "$pc")
  export PKG_CONFIG_PATH
  libdir=$(pkg-config --variable=libdir tenon)
}

build_alone() {
  meson setup "$1/build" "$1" -Dwerror=true >"$work/log" 2>&1 || { cat "$work/log"; die "meson setup $1"; }
  ninja -C "$1/build" >"$work/log" 2>&1 || { cat "$work/log"; die "$1 does not build"; }
  foreign=$(ninja -C "$1/build" -t deps | grep "$source/" | grep -v "$work" || true)
  [ -z "$foreign" ] || die "headers that are not installed: $foreign"
}
