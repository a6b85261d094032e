#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check-engines.sh BUILD [MINUTES]: backends over libraries that nobody here wrote (examples/onednn-backend and xnnpack-backend), as projects of their own
# against what BUILD installs: each passes `tenon conform`, with MINUTES the thorough one of that long, both at once; and MobileNetV2 and ResNet-18 with random weights give with it
# what onnxruntime gives, every task within its bound. A graph of bytes gives with xnnpack
# what the host gives (check_bytes.py). One whose library is not installed is left out; none: exit 77.
set -eu
unset TENON_PLUGIN_PATH TENON_PROFILE_PATH TENON_PROFILE TENON_CACHE_DIR TENON_LOG
source=$(cd "$(dirname "$0")/.." && pwd)
. "$source/scripts/install-prefix.sh"
begin_check "$1" pkg-config meson ninja
python=${TENON_TEST_PYTHON:-python3}
engines=
for e in onednn:oneapi/dnnl/dnnl.h:libdnnl-dev xnnpack:xnnpack.h:libxnnpack-dev,libpthreadpool-dev; do
  header=${e#*:}
  if echo "#include <${header%:*}>" | cc -E - >/dev/null 2>&1; then
    engines="$engines ${e%%:*}"
  else
    say "left out: ${e%%:*} (Debian: ${e##*:})"
  fi
done
[ -n "$engines" ] || { say "skipped: no such library is there"; exit 77; }
install_prefix "$build" "$work" || die "meson install"
skip_sanitized "$libdir/libtenon.so"
export LD_LIBRARY_PATH="$libdir" PATH="$prefix/bin:$PATH" TENON_CACHE_DIR="$work/cache"

cd "$work"
models=
if "$python" -c 'import onnx, onnxruntime' 2>/dev/null; then
  PYTHONDONTWRITEBYTECODE=1 "$python" "$source/tests/vision/make_cnn.py" models || die "models"
  models="mobilenet-v2 resnet-18"
fi
minutes=${2:-}
for e in $engines; do
  cp -R "$source/examples/$e-backend" .
  long=$(wc -l "$e-backend"/*.[ch] | awk '$2 != "total" && $1 >= 500 {print $2}')
  [ -z "$long" ] || die "500 lines or more: $long"
  build_alone "$e-backend"
  # shellcheck disable=SC2086
  (tenon conform "$e-backend/build/$e.so" --seed 1 --patience 4 --jobs 1 ${minutes:+--thorough --minutes $minutes} >"$e.log" 2>&1 &&
    : >"$e.passed") &
done
wait
for e in $engines; do
  plugin=$e-backend/build
  [ -e "$e.passed" ] || { cat "$e.log"; die "tenon conform $e"; }
  say "$(tail -1 "$e.log")"
  for m in $models; do
    set -- "models/$m" --data "models/$m" --profile "$e-backend/$e-profile.yaml" --plugin-dir "$work/$plugin"
    tenon verify "$@" >log 2>&1 || { cat log; die "$m with $e is not onnxruntime's"; }
    tenon verify "$@" --against reference >log 2>&1 || { cat log; die "tasks of $m with $e leave their bounds"; }
    worst=$(grep -o 'worst difference.*' log)
    shift 3
    tenon check --all "models/$m" "$@" >placed 2>&1 || { cat placed; die "tenon check $m"; }
    ! grep -q '^[^ ]* *Conv.* host ' placed || { cat placed; die "the host convolves $m, not $e"; }
    say "$m: $(grep -c "^v.* $e " placed) nodes on $e, $(grep -c '^[^ ]* .* host  ' placed) on the host, $worst"
  done
done
case $engines in *xnnpack*)
  [ -z "$models" ] || PYTHONDONTWRITEBYTECODE=1 "$python" "$source/tests/vision/check_bytes.py" "$prefix/bin/tenon" bytes \
    xnnpack-backend/xnnpack-profile.yaml "$work/xnnpack-backend/build" || die "bytes with xnnpack are not the host's"
esac
[ -n "$models" ] || say "no models were run: '$python' has no onnx or onnxruntime"
