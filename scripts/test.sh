#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test.sh [--long] [MESON'S ARGUMENTS...]: installs what is missing, builds and runs the tests; with --long also those of the suite
# `long`, without it the last lines name them. Other arguments go to `meson setup`. BUILD: another build folder.
# TENON_TEST_WITHOUT: suites to leave out, of those in tests/README.md.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

without=(${TENON_TEST_WITHOUT:-})
if [ "${1:-}" = --long ]; then shift; else without+=(long); fi

install_packages $build_packages $test_packages
export TENON_TEST_PYTHON=$root/.venv/bin/python
build=${BUILD:-$root/build-test}
venv=$root/.venv
pip_install "$venv" "$root/scripts/python.txt"
pip_install "$venv" "$root/scripts/python-opencl.txt" || say "no intel-opencl-rt: its tests are skipped"
configure "$build" -Dtests=enabled -Dwerror=true "$@"
say "building"
ninja -C "$build" >"$build/build.log" || { cat "$build/build.log"; exit 1; }

say "testing"
status=0
# A test's time limit is there to end one that hangs; a busy machine may be several times slower than a quiet one.
meson test -C "$build" --print-errorlogs --timeout-multiplier 4 "${without[@]/#/--no-suite=}" || status=$?
"$root/scripts/summary.sh" "$build" || status=1
# What was left out, and how to have it.
if [ $status = 0 ] && [[ " ${without[*]} " == *" long "* ]]; then
  mapfile -t more < <(meson test -C "$build" --list --no-rebuild --suite long 2>/dev/null | sed -n 's|.* / ||p')
  echo "scripts/test.sh --long adds ${#more[@]} tests that take longer:"
  printf '%s\n' "${more[@]}" | paste -sd ' ' | fold -sw 120
fi
exit $status
