#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# static_object.sh OBJCOPY OUT SYMBOL WHOLE.a [REST.a ...] -- CC...: one relocatable object of all of WHOLE.a and what it needs of
# the others, with SYMBOL as its only global name, so that several such objects may share parts.
set -eu
objcopy=$1 out=$2 symbol=$3 whole=$4
shift 4
rest=
while [ "$1" != -- ]; do rest="$rest $1"; shift; done
shift
# shellcheck disable=SC2086
"$@" -r -nostdlib -o "$out" -Wl,--whole-archive "$whole" -Wl,--no-whole-archive -Wl,--start-group $rest -Wl,--end-group
"$objcopy" --keep-global-symbol="$symbol" "$out"
