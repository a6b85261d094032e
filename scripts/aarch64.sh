#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Cross build for aarch64, unit tests under qemu-user, cpu-neon-lut's kernels and the demo model on it under several CPUs
# (tests/arm), and the demo model's golden ids on the host device. QEMU_SME: a qemu-aarch64 of 10.1 or later, for SME.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

dpkg --print-foreign-architectures | grep -qx arm64 || { as_root "those of arm64"; $sudo dpkg --add-architecture arm64; }
arm_packages=$(for p in libprotobuf-c-dev libltdl-dev libyaml-dev libjansson-dev libpcre2-dev libutf8proc-dev \
  libxxhash-dev libmd-dev libpng-dev libjpeg62-turbo-dev libcunit1-dev; do echo "$p:arm64"; done)
install_packages meson ninja-build pkg-config protobuf-c-compiler gcc-aarch64-linux-gnu libc6-dev-arm64-cross \
  qemu-user-static python3 $arm_packages
build=${BUILD:-$root/build-aarch64}
configure "$build" --cross-file "$root/scripts/aarch64.ini" -Dtests=enabled -Dwerror=true "$@"
say "building for aarch64"
ninja -C "$build" >"$build/build.log" || { cat "$build/build.log"; exit 1; }

say "testing under qemu"
status=0
meson test -C "$build" --print-errorlogs --timeout-multiplier 10 base expr graph shape ops host profile llm || status=$?
"$root/scripts/summary.sh" "$build" || status=1

# The emulator's default CPU has every ISA; the others show that the lower ones need nothing more.
say "kernels, and the demo model on each kind of CPU"
meson test -C "$build" --print-errorlogs --timeout-multiplier 10 kernels kernels-sme formats-golden arm arm-grids arm-integers broken-cpu-neon-lut \
  every-weight-cpu-neon-lut every-weight-demo-cpu-neon-lut broken-weight-cpu-neon-lut conform-cpu-neon-lut \
  conform-caches || status=$?
for tier in cortex-a72:neon cortex-a76:dotprod; do
  cpu=${tier%:*}
  qemu-aarch64-static -cpu "$cpu" "$build/tests/kernels/kernels-test" --bits --only "${tier#*:}" >"$build/kernels-$cpu.log" ||
    { status=1; cat "$build/kernels-$cpu.log"; }
done

# SME as it is needs QEMU 10.1 or later, which Debian 12 has not.
if [ -n "${QEMU_SME:-}" ]; then
  for bytes in 16 32 64; do
    "$QEMU_SME" -cpu "max,sme-default-vector-length=$bytes" "$build/tests/kernels/kernels-test" --bits --only _16x >"$build/kernels-sme-$bytes.log" ||
      { status=1; cat "$build/kernels-sme-$bytes.log"; }
  done
fi

want=$(python3 -c "
import json
c = json.load(open('$root/models/demo/golden.json'))['cases'][0]
print(*(c['prompt_ids'] + c['greedy_ids'][:8]))")
got=$(TENON_PROFILE_PATH=$root/configs qemu-aarch64-static "$build/runtime/cli/tenon" run "$root/models/demo" \
  --profile host -p "In the beginning" -n 8 --temp 0 --ids)
[ "$got" = "$want" ] && say "aarch64: the demo model's ids are the golden's" || { say "got  $got"; say "want $want"; status=1; }
# A bundle for it, made by a Tenon of this machine (NATIVE names its build folder) from what this one installs.
say "bundles for aarch64, made on $(uname -m)"
native=${NATIVE:-$root/build-test}
if [ "$(uname -m)" = x86_64 ]; then
  configure "$native" -Dtests=enabled
  ninja -C "$native" runtime/cli/tenon runtime/plugin/helper/tenon-helper plugins/cpu-neon-lut/cpu-neon-lut.so >"$build/native.log" ||
    { cat "$build/native.log"; exit 1; }
  rm -rf "$build/installed"
  DESTDIR=$build/installed meson install -C "$build" --no-rebuild --quiet >"$build/install.log" || { cat "$build/install.log"; exit 1; }
  prefix=$(dirname "$(dirname "$(find "$build/installed" -path '*/bin/tenon')")")
  TENON=$native/runtime/cli/tenon TENON_BUILD=$native TENON_TEST_DATA= TENON_TEST_SOURCE=$root PYTHONPATH=$root/tests/cli \
    TENON_TEST_AARCH64_PREFIX=$prefix python3 "$root/tests/bundle/test_bundle.py" Bundle.test_aarch64 || status=1
fi
exit $status
