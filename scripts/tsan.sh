#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tsan.sh: builds the program of tests/base with ThreadSanitizer and runs it: the thread pool with 1, 2, 3 and 8 threads, several callers,
# nested calls, cancellation, and its end while threads are parked. The first race ends it. BUILD names the build folder.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

install_packages $build_packages libcunit1-dev
build=${BUILD:-$root/build-tsan}
configure "$build" -Dtests=enabled -Dwerror=true -Db_sanitize=thread -Db_lundef=false
say "building for ThreadSanitizer"
ninja -C "$build" tests/base/base_test >"$build/build.log" || { cat "$build/build.log"; exit 1; }
nm "$build/tests/base/base_test" | grep __tsan_init >/dev/null || { say "ThreadSanitizer is not in it"; exit 1; }
TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 "$build/tests/base/base_test" >"$build/tsan.log" 2>&1 || { cat "$build/tsan.log"; exit 1; }
say "no race in $(awk '$1 == "tests" { print $3 }' "$build/tsan.log") tests"
