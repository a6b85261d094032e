#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# long.sh [--list] [--again] [LEG...]: what is too long for CI, leg by leg (all of them, if none is named).
#
# A leg is a row of steps. Each step that is done is noted in WORK/state/LEG, and a call goes on after the last one, so that
# it may be stopped at any time. When all steps are done, the leg writes its row of tests/long/README.md: date, commit,
# machine, and the figures that its steps printed. What was noted holds for the code that it was noted of: after a change
# of that code or of the leg's tests it begins again. --again: it begins again in any case. What conform-seeds and
# conform-seeds-opencl have done is kept in tests/long/*.tsv, and goes on where it was on any machine.
#
#   --list           the legs, and how far each is
#   WORK=FOLDER      builds, corpora and state (default: build-long in the repository)
#   SERVE_SECONDS=N  how long clients ask (default: 600)
#   BUILD=FOLDER     serve-clients, conform-arm: a build of these sources that is there
#   QEMU_SME=FILE    conform-arm: a qemu-aarch64 of 10.1 or later, for SME and SME2 too
#   SECONDS_EACH=N   processor time of a fuzz leg (default: 600), in slices of SLICE=60
#   SHARDS=N         steps of a command of the leg oom (default: 64); COMMANDS='NAME ...': only these, without a row
#   SEEDS=N JOBS=N PATIENCE=X   of the legs conform-seeds* (default: 100 2 8); fewer than 100 write no row
#   TENON_TEST_PYTHON    a Python with numpy, onnx, onnxruntime and tokenizers (default: .venv, as scripts/test.sh makes it)
#   TENON_EXPORT_PYTHON  one with the exporters of tests/exports/README.md; the leg `exports` is left out without it
#
# Exit: 0 all legs equal or without findings, 1 one is not, 2 usage. All runs at the lowest priority (nice).
set -euo pipefail
source "$(dirname "$0")/lib.sh"

work=${WORK:-$root/build-long}
each=${SECONDS_EACH:-600} slice=${SLICE:-60}
python=${TENON_TEST_PYTHON:-$root/.venv/bin/python}
table=$root/tests/long/README.md
fuzz_targets="tokenizer jinja grammar import shapes host models files packed tensors wire"

legs() {
  cat <<LIST
tokenizers|the field's tokenizers on 10,000 texts each against PyPI's, one step a thousand|runtime/base runtime/llm tests/llm
jinja|random templates and values against PyPI's jinja2|runtime/base runtime/llm tests/llm
tokenizer-configs|random tokenizer.json files against PyPI's|runtime/base runtime/llm tests/llm
$(for t in $fuzz_targets; do
  of=runtime
  case $t in tokenizer | jinja | grammar) of="runtime/base runtime/llm" ;; esac
  echo "fuzz-$t|libFuzzer, tests/fuzz/target_$t.c, with ASan and UBSan|$of tests/fuzz"
done)
oom|each allocation, mapping and open of each command fails once (bundle: a tenth of them)|runtime include plugins tests/oom
million|graphs of a million nodes load in 20 s of CPU and 4 GB, one step a family|runtime tests/cli/families.py tests/cli/test_scaling.py
context-131072|a prompt of 131,072 positions against float64, memory against inspect's|runtime include tests/cli/long_context.py tests/cli/tiny_decoder.py
conform-seeds|the vendor kit on 100 seeds: the plugins but for OpenCL's, the example, what new-plugin writes, both foreign engines|runtime include plugins examples
conform-seeds-opencl|the same of both OpenCL plugins, on Intel's CPU runtime|runtime include plugins
serve-clients|4 and 16 clients of tenon serve for ten minutes each, some of which hang up|runtime include tests/serve
conform-arm|the vendor kit on cpu-neon-lut and the demo model's ids under qemu, one step a kind of CPU|runtime include plugins models/demo tests/arm
slow|tests of the suite slow, which CI leaves out: quantized folders, report, scaling|runtime include plugins tests/cli models/demo
quantize-1b|tenon quantize on a shape of 1.1B weights, 8,192 tokens: lev4, and 3.5 bits; wants a machine with nothing else|runtime include plugins/common plugins/cpu-avx2-lut
exports|each export of tests/exports made anew by its exporter, verified|runtime include tests/exports
LIST
}

field() { legs | awk -F'|' -v leg="$1" -v n="$2" '$1 == leg {print $n}'; }

# What a leg's notes hold for: the code and its tests as they lie there, committed or not.
subject() {
  # shellcheck disable=SC2046
  (cd "$root" && git ls-files -co --exclude-standard -- $(field "$1" 3) | grep -v '\.md$' | sort | xargs -d '\n' sha256sum 2>/dev/null) | md5sum | cut -c1-16
}

note() { echo "$2" >>"$work/state/$1"; } # LEG STEP
noted() { grep -qxF "$2" "$work/state/$1" 2>/dev/null; }
count() { grep -c "^$2" "$work/state/$1" 2>/dev/null || :; } # LEG PREFIX

begin() { # LEG: forgets notes of other code
  mkdir -p "$work/state"
  local of
  of="of $(subject "$1")"
  noted "$1" "$of" && return
  [ ! -e "$work/state/$1" ] || say "$1: the code has changed, it begins again"
  echo "$of" >"$work/state/$1"
}

# LEG RESULT FIGURES: the leg's row, in place of the one before.
record() {
  local commit cpu row
  commit=$(git -C "$root" rev-parse --short=9 HEAD)
  # shellcheck disable=SC2046
  git -C "$root" diff --quiet HEAD -- $(field "$1" 3) || commit="$commit, changed"
  cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
  row="| $1 | $2 | $3 | $(date -u +%F) | $commit | ${cpu:-$(uname -m)} |"
  awk -v leg="$1" -v row="$row" '
    /^<!-- end of legs -->/ {if (!done) print row; done = 1}
    index($0, "| " leg " |") == 1 {if (!done) print row; done = 1; next}
    {print}' "$table" >"$work/table" && cp "$work/table" "$table"
  note "$1" "done $2"
  echo "$row"
}

plain() { # a build with the tests
  local b=$work/build
  configure "$b" -Dtests=enabled -Dbuildtype=release
  nice ninja -C "$b" "$@" >"$b/build.log" || { tail -20 "$b/build.log"; exit 1; }
}

seconds_of() { awk '{print $1 + $2}' "$1"; } # user and system time of a command, from \time -f '%U %S'

# --- legs ---

leg_tokenizers() {
  plain tests/llm/tok-cli
  local k out=$work/tokenizers.txt
  for k in 0 1 2 3 4 5 6 7 8 9; do
    noted tokenizers "thousand $k" && continue
    [ "$k" = 0 ] && : >"$out"
    nice "$python" "$root/tests/llm/families.py" "$work/build/tests/llm/tok-cli" --texts 1000 --seed "$k" >"$work/step.txt" || :
    tail -1 "$work/step.txt" | grep -q differences || { cat "$work/step.txt"; return 1; }
    tail -1 "$work/step.txt" >>"$out"
    grep -B3 -A3 wanted "$work/step.txt" || :
    note tokenizers "thousand $k"
  done
  local sums
  sums=$(awk '{t = $1; n += $3; i += $5; d += $7} END {printf "%d tokenizers, %d texts, %d ids, %d differences", t, n, i, d}' "$out")
  record tokenizers "$(case $sums in *" 0 differences") echo equal ;; *) echo DIFFERENT ;; esac)" "$sums"
}

leg_tokenizer-configs() {
  plain tests/llm/tok-cli
  local out=$work/tokenizer-configs.txt used k
  [ "$(count tokenizer-configs slice)" != 0 ] || : >"$out"
  while used=$(awk '/cases in/ {for (i = 1; i < NF; i++) if ($i == "in") s += $(i + 1)} END {print int(s)}' "$out"); [ "$used" -lt "$each" ]; do
    k=$(count tokenizer-configs slice)
    nice "$python" "$root/tests/llm/fuzz_tokenizer.py" "$work/build/tests/llm/tok-cli" --seed $((1000 + k)) --seconds "$slice" \
      --keep "$work/tokenizer-found" >"$work/step.txt" || :
    grep "cases in" "$work/step.txt" >>"$out" || { cat "$work/step.txt"; return 1; }
    grep -A4 -E '^(DIFFERENT|REFUSED|BROKEN)' "$work/step.txt" | tee -a "$work/tokenizer-found.txt" || :
    tail -1 "$work/step.txt" >>"$out"
    note tokenizer-configs "slice $k"
  done
  local bad cases
  bad=$(awk '/^[0-9]+ differences$/ {n += $1} END {print n + 0}' "$out")
  cases=$(sed -n 's/.*configurations \([0-9]*\).*/\1/p' "$out" | awk '{n += $1} END {print n + 0}')
  record tokenizer-configs "$([ "$bad" = 0 ] && echo equal || echo DIFFERENT)" "$cases configurations in $used s of processor time, $bad differences"
}

leg_jinja() {
  plain tests/llm/jinja-cli
  local out=$work/jinja.txt k
  [ "$(count jinja slice)" != 0 ] || : >"$out"
  while k=$(count jinja slice) && [ $((k * slice)) -lt "$each" ]; do
    nice "$python" "$root/tests/llm/check_jinja.py" "$work/build/tests/llm/jinja-cli" --seed $((1000 + k)) --seconds "$slice" >"$work/step.txt" 2>/dev/null || :
    tail -1 "$work/step.txt" | grep ' templates: ' >>"$out" || { cat "$work/step.txt"; return 1; }
    grep -A4 '^DIFFERENT' "$work/step.txt" | tee -a "$work/jinja-found.txt" || :
    note jinja "slice $k"
  done
  local sums
  sums=$(awk '{n += $1; e += $3; r += $5; b += $(NF - 1)} END {printf "%d templates, %d equal, %d refused by both, %d different", n, e, r, b}' "$out")
  record jinja "$(case $sums in *" 0 different") echo equal ;; *) echo DIFFERENT ;; esac)" "$sums"
}

fuzz_build() {
  local b=$work/fuzz
  command -v clang >/dev/null || install_packages clang
  CC="$(command -v ccache || :) clang" configure "$b" -Dtests=enabled -Dfuzz=enabled -Db_sanitize=address,undefined -Db_lundef=false
  nice ninja -C "$b" "tests/fuzz/fuzz_$1" >"$b/build.log" || { tail -20 "$b/build.log"; exit 1; }
  [ -d "$work/seeds" ] || "$python" "$root/tests/fuzz/seeds.py" "$work/seeds" "$root/models"
}

leg_fuzz() { # TARGET
  local leg=fuzz-$1 dir=$work/fuzz-$1 used found dict=$root/tests/fuzz/$1.dict
  fuzz_build "$1"
  mkdir -p "$dir/corpus" "$dir/found"
  if [ "$(count "$leg" slice)" = 0 ]; then rm -f "$dir/used.txt" "$dir"/found/*; fi
  touch "$dir/used.txt"
  while used=$(awk '{s += $1 + $2} END {print int(s)}' "$dir/used.txt"); [ "$used" -lt "$each" ]; do
    (
      cd "$dir"
      nice -n 19 "$work/fuzz/tests/fuzz/fuzz_$1" -fork=1 -ignore_crashes=1 -ignore_timeouts=1 -ignore_ooms=1 -rss_limit_mb=2048 \
        -malloc_limit_mb=0 -timeout=1200 -report_slow_units=1200 -max_len=8192 -print_funcs=0 $([ ! -e "$dict" ] || echo "-dict=$dict") \
        -max_total_time="$slice" -artifact_prefix=found/ corpus "$work/seeds/$1" "$root/tests/fuzz/corpus/$1" >>log 2>&1 || :
      # The second line: user and system time of what this shell ran.
      times >used.now # not in a pipe: that is a shell of its own
      tail -1 used.now | awk '{for (i = 1; i <= 2; i++) {split($i, t, /[ms]/); printf "%.1f ", t[1] * 60 + t[2]} print ""}' >>used.txt
    )
    note "$leg" "slice $(count "$leg" slice)"
  done
  found=$(find "$dir/found" -type f | wc -l)
  record "$leg" "$([ "$found" = 0 ] && echo 'no finding' || echo FOUND)" "$used s of processor time, corpus of $(find "$dir/corpus" -type f | wc -l), $found found"
}

leg_oom() {
  plain runtime/cli/tenon tests/oom/oom-inject.so tests/oom/oom-chat runtime/conform/tenon-conform
  nice ninja -C "$work/build" >"$work/build/build.log"
  local name k of=${SHARDS:-64} seed=1 out=$work/oom.txt
  [ "$(count oom shard)" != 0 ] || : >"$out"
  for name in ${COMMANDS:-$(python3 "$root/tests/oom/check_oom.py" "$work/build" --list)}; do
    for ((k = 0; k < of; k++)); do
      noted oom "shard $k/$of of $name" && continue
      nice python3 "$root/tests/oom/check_oom.py" "$work/build" --seed "$seed" --shard "$k/$of" --only "$name" >"$work/step.txt" || :
      grep -E '^[0-9]+ failures' "$work/step.txt" >/dev/null || { cat "$work/step.txt"; return 1; }
      tee -a "$out" <"$work/step.txt"
      note oom "shard $k/$of of $name"
    done
  done
  [ -z "${COMMANDS:-}" ] || { say "oom: ${COMMANDS} only, no row is written"; return 0; }
  local sums
  sums=$(awk '/^[0-9]+ failures, / {n += $1; m += $3} END {printf "%d failures, %d mistakes", n, m}' "$out")
  record oom "$(case $sums in *" 0 mistakes") echo equal ;; *) echo DIFFERENT ;; esac)" "$sums"
}

# Lines of seeds are kept in the repository, each with the commit that it holds for: SEED PLUGIN PASSED FAILED COMMIT DATE. A change
# of code does not take them back; a seed that found something is asked again.
one_seed() { # LEG SEED PLUGIN.so ARGS...: a run of the kit, and its line, unless there is one
  local leg=$1 seed=$2 so=$3 name lines=$root/tests/long/$1.tsv
  name=$(basename "$so" .so)
  shift 3
  ! grep -qsP "^$seed\t$name\t\d+\t0\t" "$lines" || return 0
  nice -n 19 "$@" "$work/build/runtime/cli/tenon" conform --seed "$seed" --jobs "${JOBS:-2}" --patience "${PATIENCE:-8}" "${kit_args[@]}" "$so" \
    >"$work/step.txt" 2>&1 || :
  ! grep -q '^FAIL' "$work/step.txt" || { echo "$name, seed $seed"; cat "$work/step.txt"; } >>"$work/$leg-found.txt"
  tail -1 "$work/step.txt" | awk -v seed="$seed" -v name="$name" -v commit="$(git -C "$root" rev-parse --short=9 HEAD)" -v date="$(date -u +%F)" '
    / cases: / {for (i = 1; i < NF; i++) {if ($(i + 1) ~ /^passed/) p = $i; if ($(i + 1) ~ /^failed/) f = $i}
                printf "%d\t%s\t%d\t%d\t%s\t%s\n", seed, name, p, f, commit, date}' >>"$lines"
}

record_seeds() { # LEG SEEDS
  local sums
  sums=$(awk -F'\t' -v most="$2" '
    $1 <= most {n++; p += $3; f += $4; who[$2]; if ($4 == 0) good[$1 "\t" $2]; if (!first) first = $5; last = $5}
    END {for (k in who) for (s = 1; s <= most; s++) if (!((s "\t" k) in good)) open++
         printf "%d seeds of %d plugins, %d runs of the kit between commits %s and %s, %d cases passed, %d findings on the way, %d without a run that has none",
                most, length(who), n, first, last, p, f, open}' "$root/tests/long/$1.tsv")
  [ "$2" = 100 ] || { say "$1: $sums; no row is written"; return 0; }
  record "$1" "$(case $sums in *", 0 without a run that has none") echo 'no finding' ;; *) echo FOUND ;; esac)" "$sums"
}

# Some hours of processor time.
leg_conform-seeds() {
  local b=$work/build seeds=${SEEDS:-100} seed so kit_args
  plain
  "$root/tests/conform/vendor.sh" "$root" "$b/runtime/cli/tenon" "$work/vendor"
  if [ ! -e "$work/engines-of-$(subject conform-seeds)" ]; then
    TENON_TEST_PYTHON=$python nice sh "$root/scripts/check-engines.sh" "$b" || [ $? = 77 ] || return 1
    : >"$work/engines-of-$(subject conform-seeds)"
  fi
  for ((seed = 1; seed <= seeds; seed++)); do
    for so in "$b"/plugins/*/*.so "$work"/vendor/*.so "$b"/check-engines/*-backend/build/*.so; do
      [ -e "$so" ] || continue
      kit_args=()
      case $(basename "$so" .so) in skeleton) kit_args=(--level abi) ;; acme) kit_args=(--level matmul) ;; opencl*) continue ;; esac
      one_seed conform-seeds "$seed" "$so" env
    done
  done
  record_seeds conform-seeds "$seeds"
}

# On Intel's CPU runtime, as the tests conform-opencl-*: some two hours of both cores. Kernels are compiled once for all seeds.
leg_conform-seeds-opencl() {
  local b=$work/build seeds=${SEEDS:-100} seed name cl
  local kit_args=(--option device_type=any --option min_k=1 --option min_n=1 --cache-dir "$work/opencl-kernels")
  plain
  for name in mali adreno; do
    meson introspect --tests "$b" | "$python" -c "
import json, sys
for t in json.load(sys.stdin):
    if t['name'] == 'conform-opencl-$name': print(*(f'{k}={v}' for k, v in t['env'].items()), sep='\n')" >"$work/opencl-$name.env"
    [ -s "$work/opencl-$name.env" ] || { say "conform-seeds-opencl: Intel's OpenCL runtime is not here"; return 1; }
  done
  for ((seed = 1; seed <= seeds; seed++)); do
    for name in mali adreno; do
      mapfile -t cl <"$work/opencl-$name.env"
      one_seed conform-seeds-opencl "$seed" "$b/plugins/opencl-$name/opencl-$name.so" env "${cl[@]}"
    done
  done
  record_seeds conform-seeds-opencl "$seeds"
}

# Needs what scripts/aarch64.sh installs.
leg_conform-arm() {
  local b=${BUILD:-$work/build-aarch64} out=$work/conform-arm.txt cpu run ids want sums kind isa v
  local kinds=(cortex-a53 cortex-a72 cortex-a76 neoverse-n1 max,sve-max-vq=1 max,sve-max-vq=2 max,sve-max-vq=4)
  if [ -n "${QEMU_SME:-}" ]; then
    for v in 16 32 64; do kinds+=("max,sme-default-vector-length=$v:sme" "max,sme-default-vector-length=$v:sme2"); done
  fi
  if [ -z "${BUILD:-}" ]; then
    configure "$b" --cross-file "$root/scripts/aarch64.ini" -Dtests=disabled -Dbuildtype=release
    nice ninja -C "$b" runtime/cli/tenon runtime/conform/tenon-conform plugins/cpu-neon-lut/cpu-neon-lut.so >"$b/build.log" || { tail -20 "$b/build.log"; exit 1; }
  fi
  want=$("$python" -c "import json; print(*json.load(open('$root/tests/arm/golden.json'))['ids_g32'])")
  [ "$(count conform-arm cpu)" != 0 ] || : >"$out"
  for kind in "${kinds[@]}"; do
    noted conform-arm "cpu $kind" && continue
    cpu=${kind%:*} isa=auto run="qemu-aarch64-static -cpu ${kind%:*}"
    case $kind in *:*) isa=${kind#*:} run="$QEMU_SME -cpu $cpu" ;; esac
    printf 'plugins:\n  - name: cpu-neon-lut\n    options: {isa: %s}\n  - host\nrequire: [cpu-neon-lut]\n' "$isa" >"$work/conform-arm.yaml"
    # shellcheck disable=SC2086
    nice -n 19 $run "$b/runtime/cli/tenon" conform --seed 1 --jobs 2 --patience 8 --option "isa=$isa" --wrapper "$run" --worker "$b/runtime/conform/tenon-conform" \
      "$b/plugins/cpu-neon-lut/cpu-neon-lut.so" >"$work/step.txt" 2>&1 || :
    grep -E '^(FAIL|    again)' "$work/step.txt" >>"$work/conform-arm-found.txt" || :
    # shellcheck disable=SC2086
    ids=$(TENON_PROBE=inprocess TENON_PLUGIN_PATH=$b/plugins/cpu-neon-lut TENON_PROFILE_PATH=$root/configs nice -n 19 $run "$b/runtime/cli/tenon" run \
      "$root/models/demo" --profile "$work/conform-arm.yaml" --cache-dir '' -p 'In the beginning' -n 64 --temp 0 --ids) || :
    [ "$ids" = "$want" ] && ids="ids equal" || ids="ids DIFFERENT"
    tail -1 "$work/step.txt" | grep -q ' cases: ' || { cat "$work/step.txt"; return 1; }
    echo "$kind: $(tail -1 "$work/step.txt" | sed 's/.*: //'), $ids" | tee -a "$out"
    note conform-arm "cpu $kind"
  done
  sums=$(awk '{for (i = 1; i < NF; i++) {if ($(i + 1) ~ /^passed/) p += $i; if ($(i + 1) ~ /^failed/) f += $i}; d += /DIFFERENT/; n++} END {printf "%d kinds of CPU, %d cases passed, %d failed, ids of %d differ", n, p, f, d}' "$out")
  record conform-arm "$(case $sums in *" 0 failed, ids of 0 differ") echo equal ;; *) echo DIFFERENT ;; esac)" "$sums"
}

leg_million() {
  plain runtime/cli/tenon
  local name out=$work/million.txt missed
  [ "$(count million family)" != 0 ] || : >"$out"
  for name in tree adds diamonds matmuls ifs; do
    noted million "family $name" && continue
    TENON="$work/build/runtime/cli/tenon" TENON_TEST_SOURCE="$root" nice "$python" "$root/tests/cli/test_scaling.py" --million --only "$name" >"$work/step.txt" 2>&1 || :
    grep ' nodes: ' "$work/step.txt" | tee -a "$out" || { cat "$work/step.txt"; return 1; }
    note million "family $name"
  done
  missed=$(awk '{s = $4 > 20 || $8 > 4294 || $NF != 0; n += s} END {print n + 0}' "$out")
  record million "$([ "$missed" = 0 ] && echo equal || echo DIFFERENT)" "$(awk '{printf "%s%s %s s %s MB", (NR > 1 ? ", " : ""), $1, $4, $8}' "$out")"
}

leg_context-131072() {
  plain runtime/cli/tenon
  nice "$python" "$root/tests/cli/long_context.py" "$work/build/runtime/cli/tenon" "$root/configs" 131072 >"$work/step.txt" || { cat "$work/step.txt"; record context-131072 DIFFERENT "$(tail -1 "$work/step.txt")"; return; }
  record context-131072 equal "$(tail -1 "$work/step.txt")"
}

leg_serve-clients() {
  local n out=$work/serve-clients.txt b=${BUILD:-$work/build}
  [ -n "${BUILD:-}" ] || plain runtime/cli/tenon
  [ "$(count serve-clients clients)" != 0 ] || : >"$out"
  for n in 4 16; do
    noted serve-clients "clients $n" && continue
    TENON="$b/runtime/cli/tenon" TENON_BUILD="$b" TENON_TEST_SOURCE="$root" TENON_TEST_DATA="$b" TENON_SERVE_SECONDS="${SERVE_SECONDS:-600}" \
      nice "$python" "$root/tests/serve/test_clients.py" "Clients.test_$n" >"$work/step.txt" 2>&1 || echo "$n clients: FAILED" >>"$work/step.txt"
    grep -oE "\b$n clients[,:].*" "$work/step.txt" | tee -a "$out" || { cat "$work/step.txt"; return 1; }
    note serve-clients "clients $n"
  done
  record serve-clients "$(grep -q FAILED "$out" && echo DIFFERENT || echo equal)" "$(paste -sd';' "$out" | sed 's/;/; /g')"
}

leg_slow() {
  plain
  local tests t bad=0
  mapfile -t tests < <(meson test -C "$work/build" --list --no-rebuild --suite slow 2>/dev/null | sed -n 's|.* / ||p')
  for t in "${tests[@]}"; do
    noted slow "fine $t" && continue
    if nice meson test -C "$work/build" --no-rebuild --timeout-multiplier 8 "$t" >"$work/step.txt" 2>&1; then note slow "fine $t"; else cat "$work/step.txt" >>"$work/slow-failed.txt"; fi
  done
  for t in "${tests[@]}"; do noted slow "fine $t" || bad=$((bad + 1)); done
  record slow "$([ $bad = 0 ] && echo equal || echo DIFFERENT)" "${#tests[@]} tests, $bad failed"
}

# Time and memory, so not with nice. The tokenizer and the texts are the demo's.
leg_quantize-1b() {
  plain runtime/cli/tenon
  ninja -C "$work/build" >"$work/build/build.log"
  tenon_env "$work/build"
  local shape=$work/shape-1b out=$work/quantize-1b.txt name how
  [ "$(count quantize-1b made)" != 0 ] || : >"$out"
  [ -e "$shape/model.onnx" ] || "$python" "$root/bench/make_llama.py" "$shape" --layers 22 --dim 2048 --heads 32 --kv-heads 4 --ffn 5632 --vocab 32000 >/dev/null
  cp "$root/models/demo/tokenizer.json" "$shape/"
  for name in lev4 3.5; do
    noted quantize-1b "made $name" && continue
    case $name in lev4) how="--weights lev4" ;; *) how="--bits $name" ;; esac
    # shellcheck disable=SC2086
    "$python" "$root/bench/peak.py" --of "$work/build/runtime/cli/tenon" quantize "$shape" -o "$work/of-1b-$name" --text "$root/models/train/valid.json" \
      --max-tokens 8192 $how >"$work/step.txt" 2>&1 || { cat "$work/step.txt"; return 1; }
    echo "$how: $(tail -1 "$work/step.txt")" | tee -a "$out"
    rm -rf "$work/of-1b-$name"
    note quantize-1b "made $name"
  done
  record quantize-1b measured "$(paste -sd';' "$out" | sed 's/;/; /g')"
}

leg_exports() {
  local py=${TENON_EXPORT_PYTHON:-} name names n=0 bad=""
  if [ -z "$py" ]; then say "exports: left out, TENON_EXPORT_PYTHON is not set"; return; fi
  plain runtime/cli/tenon
  names=$(xz -dc "$root/tests/exports/models.tar.xz" | tar -tf - | sed -n 's|^\./\([^/]*\)/model.onnx$|\1|p' | grep -v '^tf2onnx' | sort)
  for name in $names; do
    if ! noted exports "fine $name" && ! noted exports "failed $name"; then
      if nice "$py" "$root/tests/exports/make.py" "$work/exports" "$name" >"$work/step.txt" 2>&1 && grep -q "all made" "$work/step.txt" &&
        (cd "$work/exports" && tar -cf - "./$name" | xz -0 >"$work/one.tar.xz") &&
        TENON_PROFILE_PATH="$root/configs" nice sh "$root/tests/exports/run.sh" "$work/build/runtime/cli/tenon" "$work/one.tar.xz" 1 "$name" >>"$work/step.txt" 2>&1; then
        note exports "fine $name"
      else
        cp "$work/step.txt" "$work/exports-$name.txt"
        note exports "failed $name"
      fi
      rm -rf "$work/exports/$name"
    fi
    n=$((n + 1))
    noted exports "fine $name" || bad="$bad $name"
  done
  record exports "$([ -z "$bad" ] && echo equal || echo DIFFERENT)" "$n made anew, $(wc -w <<<"$bad") not made or not equal$([ -z "$bad" ] || echo ":$bad")"
}

# --- the command line ---

list() {
  local leg what _ state
  while IFS='|' read -r leg what _; do
    state="not begun"
    if noted "$leg" "of $(subject "$leg")"; then
      state=$(grep '^done' "$work/state/$leg" || echo "$(($(wc -l <"$work/state/$leg") - 1)) steps")
    fi
    printf '%-18s %-14s %s\n' "$leg" "$state" "$what"
  done < <(legs)
}

again=
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    --list) list; exit 0 ;;
    --again) again=1; shift ;;
    -*) say "long.sh: '$1' is no option; see --help"; exit 2 ;;
    *) break ;;
  esac
done
for leg in "$@"; do
  [ -n "$(field "$leg" 1)" ] || { say "long.sh: no leg '$leg'; --list names them"; exit 2; }
done
[ $# -gt 0 ] || mapfile -t all < <(legs | cut -d'|' -f1)
[ $# -gt 0 ] && all=("$@")
mkdir -p "$work/state"
for leg in "${all[@]}"; do
  [ -z "$again" ] || rm -f "$work/state/$leg"
  begin "$leg"
  if grep -q '^done' "$work/state/$leg"; then say "$leg: $(grep '^done' "$work/state/$leg") before"; continue; fi
  say "$leg"
  case $leg in fuzz-*) leg_fuzz "${leg#fuzz-}" ;; *) "leg_$leg" ;; esac
done
! grep -hE '^done (DIFFERENT|FOUND)' "${all[@]/#/$work/state/}" >/dev/null 2>&1
