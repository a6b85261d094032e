#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh TENON WORKER DIR TABLE BASE MODEL [WRONG...]: every wrong of the table (or those named) that is planted in BASE is found by
# its case, and the copies with nothing planted pass all of those cases.
set -u
. "$(dirname "$0")/verdict.sh"
tenon=$1 worker=$2 dir=$3 table=$4 base=$5 model=$6
shift 6
only=" $* "
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
bad=0 n=0
conform() { # PLUGIN CASES...
  plugin=$1
  shift
  "$tenon" conform "$dir/$plugin.so" --worker "$worker" --model "$model" --seed 20260101 "$@" > "$out" 2>&1
}
all=
set -f # names of cases may have stars
while read -r wrong of case_name what; do
  [ "$of" = "$base" ] || continue
  case $only in *" $wrong "* | '  ') ;; *) continue ;; esac
  n=$((n + 1))
  with=${case_name#"${case_name%%@*}"} # an option of the command
  case_name=${case_name%%@*}
  all="$all --case $case_name"
  conform "planted-$(echo "$wrong" | tr _ -)" --fail-fast --case "$case_name" ${with:+"${with#@}"} && passed=yes || passed=no
  judge "$wrong" "$case_name" "$what" "$passed" "^FAIL  $(echo "$case_name" | sed 's/\*/[^ ]*/') " || bad=1
done < "$table"
# shellcheck disable=SC2086
if ! conform "planted-none-$base" $all; then
  echo "with nothing planted in $base:"
  cat "$out"
  bad=1
fi
tail -n 1 "$out"
echo "$n wrongs planted in $base"
[ "$n" -gt 0 ] || bad=1
exit $bad
