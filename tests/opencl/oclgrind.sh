#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# oclgrind.sh TEST LIBRARY: the kernels' test on the simulator, which reports invalid accesses and races.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
OCLGRIND_DATA_RACES=1 OCLGRIND_LOG="$log" "$1" "$2" 1 "${3:-}" || exit $?
if [ -s "$log" ]; then
  head -40 "$log"
  exit 1
fi
