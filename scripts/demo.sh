#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, and generates text with the demo model on the default profile.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

install_packages $build_packages
build=$root/build
configure "$build" -Dbuildtype=release
say "building"
ninja -C "$build" >/dev/null || ninja -C "$build"
tenon_env "$build"
say "tenon run models/demo -p \"In the beginning\" -n 64 --temp 0"
"$build/runtime/cli/tenon" run "$root/models/demo" -p "In the beginning" -n 64 --temp 0 "$@"
