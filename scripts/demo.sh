#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, and generates text with the demo model on the default profile.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

install_packages $build_packages
build=$root/build
configure "$build" -Dbuildtype=release -Dtests=disabled
say "building (the first time takes some minutes)"
build_quietly "$build"
tenon=$build/runtime/cli/tenon
say "$tenon run $root/models/demo -p \"In the beginning\" -n 64 --temp 0"
"$tenon" run "$root/models/demo" -p "In the beginning" -n 64 --temp 0 "$@"
say "type next:"
printf '%q run %q -p "And God said" -n 64\n' "$tenon" "$root/models/demo"
