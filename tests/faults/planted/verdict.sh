# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that plant mistakes (run.sh, tests/conform/fixed.sh), whose $out has what the kit said.

# judge WRONG CASE WHAT PASSED PATTERN: says whether the kit found WRONG: a line of $out matches PATTERN, and what was found stands
# below it. One that begins with ok_ is no mistake: then the kit has to have PASSED (yes). False: it is otherwise, and $out's last
# lines are shown.
judge() {
  case $1 in
  ok_*)
    [ "$4" = yes ] && echo "passes $1" && return
    printf 'WRONGLY FOUND %-16s by %-32s (%s)\n' "$1" "$2" "$3"
    ;;
  *)
    grep -A1 "$5" "$out" | tail -n 1 | grep -q '^    [^ ]' && ! grep -A1 "$5" "$out" | tail -n 1 | grep -q '^    note:' &&
      printf 'found  %-16s by %-32s %s\n' "$1" "$2" "$(grep -A1 "$5" "$out" | tail -n 1 | cut -c1-140)" && return
    printf 'MISSED %-16s by %-32s (%s)\n' "$1" "$2" "$3"
    ;;
  esac
  tail -n 5 "$out"
  return 1
}
