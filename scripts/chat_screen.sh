#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# chat_screen.sh BUILD: a conversation of `tenon chat` with the demo model, as a terminal of 88 columns shows it (tmux), into
# docs/chat.md between the lines that name this script. Speeds are those of the machine.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

[ $# = 1 ] || { say "usage: scripts/chat_screen.sh BUILD"; exit 2; }
command -v tmux >/dev/null || install_packages tmux
tenon=$(cd "$1" && pwd)/runtime/cli/tenon
work=$(mktemp -d)
tm() { tmux -L "tenon-$$" -f /dev/null "$@"; }
trap 'tm kill-server 2>/dev/null || :; rm -rf "$work"' EXIT

screen() { tm capture-pane -p -t chat | sed 's/ *$//' | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}'; }

# Until the screen's last line is the prompt, and stays so.
ready() {
  local before=- now
  for _ in $(seq 1 600); do
    now=$(screen)
    if [ "$now" = "$before" ] && tail -1 <<<"$now" | grep -qE '^> *$'; then return; fi
    before=$now
    sleep 0.2
  done
  say "chat_screen.sh: no prompt after two minutes:"
  screen
  exit 1
}

type_line() {
  tm send-keys -t chat -l "$1"
  tm send-keys -t chat Enter
  sleep 0.3
  ready
}

cd "$root"
tm new-session -d -s chat -x 88 -y 40 \
  "env TENON_PROFILE_PATH=configs TENON_CACHE_DIR=$work '$tenon' chat models/demo --profile host --temp 0.7 --seed 3 -n 32; sleep 60"
ready
type_line "In the beginning"
type_line "/retry"
type_line "/system You are brief."
type_line "And then?"
type_line "/undo"
type_line "/stats"
screen >"$work/screen"
awk -v file="$work/screen" '
  /^<!-- screen: written by scripts\/chat_screen.sh -->/ {print; print "```text"; while ((getline line <file) > 0) print line; print "```"; skip = 1; next}
  /^<!-- end of screen -->/ {skip = 0}
  !skip {print}' docs/chat.md >"$work/page" && cp "$work/page" docs/chat.md
cat "$work/screen"
