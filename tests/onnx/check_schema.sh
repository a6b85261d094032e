#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_schema.sh CHECK.py SCHEMA.proto: runs the check with a Python that has onnx, exits 77 where there is none.
py=${TENON_TEST_PYTHON:-python3}
if ! "$py" -c 'import onnx' 2>/dev/null; then
  echo "skipped: '$py' has no onnx package (set TENON_TEST_PYTHON)"
  exit 77
fi
exec "$py" "$@"
