#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a script with the Python that TENON_TEST_PYTHON names, else python3; exit 77 when there is none.
python="${TENON_TEST_PYTHON:-python3}"
command -v "$python" >/dev/null || {
  echo "skipped: no $python"
  exit 77
}
exec "$python" "$@"
