#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The files that are made from the op table are what it says now.
# usage: check_attrs.sh PRINT_TABLES SOURCE
status=0
for pair in attrs:include/tenon/attrs.h names:runtime/graph/attr_names.h places:runtime/graph/attr_places.h; do
  what=${pair%%:*} file=${pair#*:}
  "$1" "$what" | diff -u "$2/$file" - >&2 || { echo "$file: make it again with: print_tables $what >$file"; status=1; }
done
exit $status
