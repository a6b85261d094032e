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
if ! "$venv/bin/python" -c 'import onnx, numpy, tokenizers, onnxruntime, PIL, jinja2, openai, jsonschema, rfc3339_validator; from importlib.util import find_spec; find_spec("smolagents") or exit(1)' 2>/dev/null; then
  say "Python packages for the tests: onnx numpy tokenizers onnxruntime pillow jinja2 openai smolagents jsonschema[format-nongpl]"
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check onnx numpy tokenizers onnxruntime pillow jinja2 openai smolagents 'jsonschema[format-nongpl]'
fi
# A full OpenCL on the CPU, 0.8 GB once: without it the tests of OpenCL plugins run on PoCL alone and say so.
if [ ! -e "$venv/lib/libintelocl.so" ] || [ ! -e "$venv/lib/libimf.so" ]; then
  say "Python packages for the tests: intel-opencl-rt intel-cmplr-lib-rt"
  "$venv/bin/pip" install -q --disable-pip-version-check intel-opencl-rt intel-cmplr-lib-rt || say "no intel-opencl-rt: its tests are skipped"
fi
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
