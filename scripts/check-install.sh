#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check-install.sh BUILD: installs BUILD into a prefix of its own and uses it as a stranger would: headers alone,
# exported symbols, pkg-config, examples/minimal.c beside the installed `tenon`.
set -eu
unset TENON_PLUGIN_PATH TENON_PROFILE_PATH TENON_PROFILE TENON_CACHE_DIR TENON_LOG
source=$(cd "$(dirname "$0")/.." && pwd)
. "$source/scripts/install-prefix.sh"
begin_check "$1" pkg-config nm meson
install_prefix "$build" "$work" || die "meson install"
mkdir -p "$work/elsewhere"
say "installed under $prefix"

# Each public header alone, as C and C++.
for h in "$prefix"/include/tenon/*.h; do
  name=tenon/$(basename "$h")
  echo "#include <$name>" >"$work/one.c"
  cp "$work/one.c" "$work/one.cc"
  for cc in gcc clang clang-14; do
    command -v $cc >/dev/null || continue
    for std in c11 c17; do
      $cc -std=$std -Wall -Wextra -Wpedantic -Wpadded -Werror -I"$prefix/include" -fsyntax-only "$work/one.c" ||
        die "$name with $cc -std=$std"
    done
  done
  for cxx in g++ clang++ clang++-14; do
    command -v $cxx >/dev/null || continue
    $cxx -x c++ -fsyntax-only /dev/null 2>/dev/null || continue
    echo '#include <cstddef>' | $cxx -x c++ -fsyntax-only - 2>/dev/null || continue
    $cxx -std=c++17 -Wall -Wextra -Wpedantic -Wpadded -Werror -I"$prefix/include" -fsyntax-only "$work/one.cc" ||
      die "$name with $cxx"
  done
done
say "headers compile alone"

# Sanitizer builds export what their runtimes want.
exports() { nm -D --defined-only "$1" | awk '{print $3}' | sed 's/@.*//' | grep -v '^__asan\|^__ubsan\|^__tsan\|^__odr_asan\|^_init$\|^_fini$' || true; }
extra=$(exports "$libdir/libtenon.so" | grep -v '^tn_' || true)
[ -z "$extra" ] || die "libtenon.so exports $extra"
[ "$(exports "$libdir/libtenon.so" | grep -c '^tn_')" -gt 30 ] || die "libtenon.so exports hardly anything"
declared=$(sed -n 's/^TN_API.*[ *]\(tn_[a-z0-9_]*\)(.*/\1/p' "$prefix/include/tenon/tenon.h" "$prefix/include/tenon/tasks.h" "$prefix/include/tenon/bundle.h" | sort)
for f in $declared; do
  exports "$libdir/libtenon.so" | grep -qx "$f" || die "tenon.h, tasks.h or bundle.h declares $f, libtenon.so lacks it"
done
for so in "$libdir"/tenon/plugins/*.so; do
  [ -e "$so" ] || continue
  [ "$(exports "$so")" = tenon_plugin_entry_v1 ] || die "$so exports $(exports "$so" | tr '\n' ' ')"
  [ -e "${so%.so}.yaml" ] || die "$so has no manifest"
done
say "symbols: only tn_* and plugin entries"

if nm -D "$libdir/libtenon.so" | grep -q ' U __\(asan\|tsan\|ubsan\)_'; then
  say "skipped: the rest, because a sanitizer's runtime is wanted by the library"
  exit 77
fi

# The example, against the installed library only.
# compile PACKAGE ARGS...: what pkg-config prints is quoted for a shell.
compile() {
  package=$1
  shift
  eval "set -- \"\$@\" $(pkg-config --cflags --libs "$package")"
  ${CC:-cc} -std=c11 "$@"
}
compile tenon -Wall -Wextra "$source/examples/minimal.c" -o "$work/minimal" ||
  die "examples/minimal.c does not build"
[ "$(wc -l <"$source/examples/minimal.c")" -lt 80 ] || die "examples/minimal.c has 80 lines or more"
cd "$work/elsewhere"
export LD_LIBRARY_PATH="$libdir"
[ ! -e "$libdir/tenon/static/libtenon.a" ] ||
  compile tenon-static "$source/examples/minimal.c" -o "$work/minimal-static" ||
  die "examples/minimal.c does not build with libtenon.a"
# The same by CMake, from the installed examples.
programs=$work/minimal
[ ! -e "$work/minimal-static" ] || programs="$programs $work/minimal-static"
if command -v cmake >/dev/null; then
  cmake -S "$prefix/share/tenon/examples/cmake" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 &&
    cmake --build "$work/cmake" >>"$work/log" 2>&1 || { cat "$work/log"; die "examples/cmake does not build"; }
  grep -q '^CMAKE_BUILD_TYPE:STRING=Release$' "$work/cmake/CMakeCache.txt" || die "examples/cmake is built without a build type"
  [ -e "$work/cmake/acme.so" ] && [ -e "$work/cmake/acme.yaml" ] || die "examples/cmake makes no backend"
  programs="$programs $work/cmake/minimal"
  [ ! -e "$work/minimal-static" ] || programs="$programs $work/cmake/minimal-static"
  "$prefix/bin/tenon" conform "$work/cmake/acme.so" --level abi --seed 1 >"$work/log" 2>&1 ||
    { cat "$work/log"; die "tenon conform of acme by CMake"; }
  # What `tenon new-plugin` writes, by CMake too.
  rm -rf "$work/by-cmake"
  "$prefix/bin/tenon" new-plugin by-cmake --dir "$work/by-cmake" >"$work/log" &&
    cmake -S "$work/by-cmake" -B "$work/by-cmake/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 &&
    cmake --build "$work/by-cmake/build" >>"$work/log" 2>&1 || { cat "$work/log"; die "new-plugin's CMakeLists.txt does not build"; }
  "$prefix/bin/tenon" conform "$work/by-cmake/build/by-cmake.so" --level abi --seed 1 >"$work/log" 2>&1 ||
    { cat "$work/log"; die "tenon conform of what new-plugin's CMakeLists.txt builds"; }
  for version in 0.1 9; do
    printf 'cmake_minimum_required(VERSION 3.18)\nproject(x C)\nfind_package(Tenon %s)\nmessage("found ${Tenon_FOUND}")\n' \
      $version >"$work/CMakeLists.txt"
    cmake -S "$work" -B "$work/version-$version" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 || true
    [ "$(grep '^found' "$work/log")" = "found $([ $version = 9 ] && echo 0 || echo 1)" ] || { cat "$work/log"; die "CMake, version $version"; }
  done
else
  say "skipped: examples/cmake, because cmake is not there"
fi
for page in writing-a-plugin plugin-abi conformance operators; do
  [ -s "$prefix/share/doc/tenon/$page.md" ] || die "docs/$page.md is not installed"
done
# The library looks for plugins in the prefix that it was configured with; this copy lies elsewhere and says where.
{ echo "plugin_path: [$libdir/tenon/plugins]"; cat "$prefix/share/tenon/profiles/default.yaml"; } >"$work/device.yaml"
for profile in "$prefix/share/tenon/profiles/host.yaml" "$work/device.yaml"; do
  for program in $programs; do
    # A program with libtenon.a does not lie beside tenon-helper, which tries plugins first.
    case "$program $profile" in *-static*device.yaml) continue ;; esac
    "$program" "$source/models/demo" "In the beginning" "$profile" >"$work/minimal.out" 2>"$work/minimal.err" ||
      { cat "$work/minimal.err"; die "$program with $profile"; }
    [ "$program" = "$work/minimal" ] && cp "$work/minimal.out" "$work/first.out"
    cmp "$work/minimal.out" "$work/first.out" || die "$program says something else than minimal"
  done
  "$prefix/bin/tenon" run "$source/models/demo" -p "In the beginning" -n 32 --temp 0 --profile "$profile" \
    >"$work/run.out" 2>"$work/run.err" || { cat "$work/run.err"; die "tenon run with $profile"; }
  [ -s "$work/minimal.out" ] && [ "$(tr -d ' \n' <"$work/minimal.out")" ] || die "minimal printed nothing"
  # Both end with the same generated text; `run` may print the prompt before it.
  a=$(cat "$work/minimal.out")
  b=$(cat "$work/run.out")
  case "$b" in
    *"$a"*) ;;
    *) die "minimal and tenon run differ with $profile:
$a
--
$b" ;;
  esac
done
"$prefix/bin/tenon" plugins >"$work/plugins.out" || die "tenon plugins"
"$prefix/bin/tenon" plugins | grep -q cpu-avx2-lut || [ ! -e "$libdir/tenon/plugins/cpu-avx2-lut.so" ] ||
  die "the moved tenon does not find its plugins"

# The installed manifest carries the checksum of the installed plugin: one byte more and it is refused, by name.
so=$libdir/tenon/plugins/cpu-avx2-lut.so
if [ -e "$so" ]; then
  grep -q '^sha256: [0-9a-f]\{64\}$' "${so%.so}.yaml" || die "the installed manifest has no sha256"
  printf x >>"$so"
  "$prefix/bin/tenon" plugins | grep '^cpu-avx2-lut .*not loaded.*SHA-256' >/dev/null || die "a damaged plugin is loaded"
fi
say "examples/minimal.c says what tenon run says: $(head -c 60 "$work/minimal.out" | tr '\n' ' ')..."
