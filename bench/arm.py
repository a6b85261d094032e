#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cycles of cpu-neon-lut's kernels, counted by llvm-mca on the machine code that compilers make of them. No Arm machine
is needed, and none is measured: all data is taken to be in L1.

  bench/arm.py BUILD [--compiler NAME='clang-14 --target=aarch64-linux-gnu' ...] [--llvm DIR]
               [--peers FILE [--objects DIR]] [--only REGEX] [--cpus LIST] [--halve-loads] [--check [PERCENT]]

BUILD is a build for aarch64 (scripts/aarch64.sh); its objects are the first column. Each --compiler compiles the same
files with the flags of BUILD into a folder of its own. --llvm: where llvm-mca and llvm-objdump of LLVM 17 or later lie;
the models of Neoverse V2 and N2 are not in LLVM 14 (Debian: packages llvm-19, clang-19). --check: exit 1 where a loop is
not found, or where a row is more than PERCENT (30) from its goal, or slower than a peer by as much, on N2 or V2. Column
"seen" says what the counted form would not have: registers on the stack or copied in the hot loop. --halve-loads: on
A55 a load of 16 bytes counts as two of 8, as the core has it (a cycle for 8 bytes); LLVM's model has one cycle for LDR of 16
bytes and six for LDP of 32.

How a kernel is counted: its function is disassembled, backward branches give the loops. The innermost loop with
multiplications or lookups is repeated until it has done one group of weights, what is around it in the group's loop is
added, and the whole is given to llvm-mca as straight code. So the end of a group counts, calls and superblocks do not.
Products of an instruction: SDOT 16, SMMLA 32, SMLAL 4 or 8, TBL of a bit-serial format 64 / planes. Loops that unpack
have no products: 16 weights for each register stored. GEMV: cycles per 64 weights; GEMM: products per cycle; unpacking:
cycles per 64 weights; loops over elements: for 16 of them. Cells of CPUs that lack an instruction of the loop are empty.

--peers: kernels of other projects in objects that lie on this machine, counted by the same code, printed under our row and
compared with it. A line of FILE is one kernel, its words between tabs; # begins a comment:

  OUR ROW    PEER AND KERNEL    COMPILER    OBJECT    SYMBOL    PRODUCTS    PLANES

OUR ROW: or several, between semicolons. OBJECT: relative to DIR, or to FILE's folder. SYMBOL: a function's name, or a part
that only one has. PRODUCTS: of one pass of the innermost loop or, if that makes a part of a group only, of the loop around
(block length times rows of the tile), by the peer's source; "A,B": B of the loop around the one with A. The instructions
must give the same number, else the row is an error. All innermost loops of a group count as often as each other. PLANES:
0 for products, else how many lookups make four weights; left out: 0. Python's standard library only.
"""
import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

NO_I8MM = ("a55", "n1")
CPUS = {"a55": ("cortex-a55", 2), "a510": ("cortex-a510", 3), "n1": ("neoverse-n1", 4), "v1": ("neoverse-v1", 8),
        "n2": ("neoverse-n2", 5), "v2": ("neoverse-v2", 8)}
GROUP = 128 * 16  # weights of a group of a row block
# Label, symbol, weights or products of one group, planes of lookups (0: products), goal on N2 and V2.
GEMV = "tni_arm_gemv_f32_"
KERNELS = [
    ("W4 g32 SDOT", GEMV + "q8g32_w4g32_1x16_dotprod", 32 * 16, 0, (5.04, 2.52)),
    ("W4 g128 SDOT", GEMV + "q8g128_w4g128_1x16_dotprod", GROUP, 0, (4.33, 2.17)),
    ("W8 g128 SDOT", GEMV + "q8g128_w8g_1x16_dotprod", GROUP, 0, None),
    ("W8 g128 USDOT", GEMV + "q8g128_w8g_1x16_i8mm", GROUP, 0, None),
    ("W3 g128 SDOT", GEMV + "q8g128_w3g_1x16_dotprod", GROUP, 0, (5.50, 2.72)),
    ("W2 g128 SDOT", GEMV + "q8g128_w2g_1x16_dotprod", GROUP, 0, (4.58, 2.23)),
    ("W1 g128 SDOT", GEMV + "q8g128_w1g_1x16_dotprod", GROUP, 0, (4.58, 2.29)),
    ("ternary 2.0 SDOT", GEMV + "q8g128_tern20_1x16_dotprod", GROUP, 0, (4.01, 2.01)),
    ("ternary 1.7 SDOT", GEMV + "q8g128_tern17_1x16_dotprod", 3 * GROUP, 0, (3.5, 1.75)),
    ("palette SDOT", GEMV + "q8g128_pal16_1x16_dotprod", GROUP, 0, (6.33, 3.17)),
    ("lev4 SDOT", GEMV + "q8g32_lev4_1x16_dotprod", 32 * 16, 0, None),
    ("lev4s SDOT", GEMV + "q8g16_lev4s_1x16_dotprod", 16 * 16, 0, None),
    ("lev3 SDOT", GEMV + "q8g32_lev3_1x16_dotprod", 32 * 16, 0, None),
    ("lev2 SDOT", GEMV + "q8g32_lev2_1x16_dotprod", 32 * 16, 0, None),
    ("lev1 SDOT", GEMV + "q8g32_lev1_1x16_dotprod", 32 * 16, 0, None),
    ("W4 g32 SDOT, x by row", GEMV + "q8g32_w4g32_1x16_dotprod_by_row", 32 * 16, 0, (5.04, 2.52)),
    ("W4 g128 SDOT, x by row", GEMV + "q8g128_w4g128_1x16_dotprod_by_row", GROUP, 0, (4.33, 2.17)),
    ("lev4 SDOT, x by row", GEMV + "q8g32_lev4_1x16_dotprod_by_row", 32 * 16, 0, None),
    ("W4 tables", GEMV + "lut4p_1x16_neon", GROUP, 4, None),
    ("W3 tables", GEMV + "lut3p_1x16_neon", GROUP, 3, (5.50, 2.72)),
    ("W2 tables", GEMV + "lut2p_1x16_neon", GROUP, 2, (3.46, 1.85)),
    ("ternary tables", GEMV + "luttp_1x16_neon", GROUP, 2, (3.00, 1.67)),
    ("W1 tables", GEMV + "lut1p_1x16_neon", GROUP, 1, (1.86, 1.00)),
    ("W4 g32 plain", GEMV + "q8g32_w4g32_1x16_neon", 32 * 16, 0, (8.4, 4.2)),
    ("W4 g128 plain", GEMV + "q8g128_w4g128_1x16_neon", GROUP, 0, (7.8, 4.2)),
]
TILES = [
    ("SMMLA g128", "tiles128_i8mm", 6 * 8 * 128, 0, (56.8, 110)),
    ("SMMLA g32", "tiles32_i8mm", 4 * 8 * 32, 0, (42.5, 80)),
    ("SMMLA g128, x by row", "rows128_i8mm", 6 * 8 * 128, 0, (56.8, 110)),
    ("SMMLA g32, x by row", "rows32_i8mm", 4 * 8 * 32, 0, (42.5, 80)),
    ("SMMLA g16", "tiles16_i8mm", 4 * 8 * 16, 0, None),
    ("SMMLA tables, nine bits: two products a weight", "tiles256_i8mm", 6 * 8 * 256, 0, None),
    ("SDOT g128", "tiles128_dotprod", 4 * 8 * 128, 0, (28.6, 55)),
    ("SDOT g32", "tiles32_dotprod", 4 * 8 * 32, 0, (21.6, 42)),
    ("SDOT g128, x by row", "rows128_dotprod", 4 * 8 * 128, 0, (28.6, 55)),
    ("SDOT g32, x by row", "rows32_dotprod", 4 * 8 * 32, 0, (21.6, 42)),
    ("SDOT tables, nine bits: two products a weight", "tiles256_dotprod", 4 * 8 * 256, 0, None),
]
STEP = 16 * 16  # weights that the loops around unpacking advance by are read off their stores
FILLS = [(isa + " " + f, f"fill_{f}_{isa}", STEP, 0, None) for isa in ("i8mm", "dotprod")
         for f in ("w3g", "w1g", "tern20", "pal16", "lev4", "lev3", "lev2", "lev1", "lut4p", "lut3p", "lut2p", "lut1p")]

FILLS += [(f"{isa} {f}, eight bits", f"narrow_{f}_{isa}", STEP, 0, None) for isa in ("i8mm", "dotprod")
          for f in ("lut4p", "lut3p", "lut2p", "lut1p")]

FLOATS, PAIRS = -1, -2  # for planes: products of floats, or of integers of 16 bits, counted one by one
HOT = "tni_hot_"
HOST = [
    ("bf16 scores, 8 rows: BFMMLA", HOT + "bf16_dots8_b16", 1, FLOATS, (28.4, 60)),
    ("bf16 values, few rows: BFMMLA", HOT + "bf16_values8_b16", 1, FLOATS, (28.4, 60)),
    ("bf16 tile, 6 rows: BFMMLA", HOT + "bf16_gemm_b16", 1, FLOATS, (28.4, 60)),
    ("bf16 scores, 8 rows: FMLA", HOT + "neon_dots8_b16", 1, FLOATS, None),
    ("bf16 values, few rows: FMLA", HOT + "neon_values8_b16", 1, FLOATS, None),
    ("bf16 tile: FMLA", HOT + "neon_gemm_b16", 1, FLOATS, None),
    ("int8 scores, 8 rows: SMMLA", "tni_kept_i8mm_scores", 1, FLOATS, (51.2, 113)),
    ("int8 values, 8 rows: SMMLA", "tni_kept_i8mm_values", 1, FLOATS, (51.2, 113)),
    ("int8 scores, 8 rows: SDOT", "tni_kept_dotprod_scores", 1, FLOATS, (27.9, 59)),
    ("int8 values, 8 rows: SDOT", "tni_kept_dotprod_values", 1, FLOATS, (27.9, 59)),
    ("fp16 scores, 8 rows: FMLA of halves", "tni_kept_fp16fml_scores", 1, FLOATS, (15.5, 31.5)),
    ("fp16 values, 8 rows: FMLA of halves", "tni_kept_fp16fml_values", 1, FLOATS, (15.5, 31.5)),
    ("f32 scores, 8 rows: FMLA", HOT + "neon_dots8", 1, FLOATS, None),
    ("f32 values, few rows: FMLA", HOT + "neon_values8", 1, FLOATS, None),
    ("f32 tile, 6 rows: FMLA", "hot_tile", 1, FLOATS, None),
    ("bytes, tile of 6 rows: SMMLA", "tni_dots_i8mm_tile", 1, FLOATS, (63.6, 126)),
    ("bytes, tile of 6 rows: SDOT", "tni_dots_dotprod_tile", 1, FLOATS, (31.9, 63)),
    ("bytes, tile of 6 rows: SMLAL", HOT + "neon_bgemm", 1, PAIRS, None),
]
# Loops over elements: label, symbol, whether results are stored.
LOOPS = [
    ("largest element", "vmax", False),
    ("sum", "hot_sum", False),
    ("sum of squares", "sum_sq", False),
    ("exp and its sum (softmax)", "exp_sum", True),
    ("exp", HOT + "neon_exp", True),
    ("sigmoid", HOT + "neon_sigmoid", True),
    ("x * sigmoid(x)", HOT + "neon_swish", True),
    ("tanh", HOT + "neon_tanh", True),
    ("erf", HOT + "neon_erf", True),
    ("fp16 to float", "from_half", True),
    ("to bfloat16, without BFCVT", HOT + "neon_to_b16", True),
    ("to bfloat16, BFCVT", HOT + "bf16_to_b16", True),
    ("bytes to floats, scaled", HOT + "neon_dequantize", True),
    ("floats to bytes", HOT + "neon_quantize", True),
    ("sums to bytes", HOT + "neon_requantize", True),
    ("three taps of a depthwise convolution", HOT + "neon_taps", True),
]

PRODUCTS = [(re.compile(r"^[su]*dot$"), 16), (re.compile(r"^[su]*mmla$"), 32)]
WIDE = re.compile(r"^(s|u)ml[as]l2?$|^smull2?$|^mla$|^mul$")
BRANCH = re.compile(r"^(b(\.\w+)?|cbn?z|tbn?z)$")


class Odd(Exception):
    pass


def tool(llvm, name):
    names = [os.path.join(llvm, name)] if llvm else [f"{name}-{v}" for v in range(30, 16, -1)] + [name]
    for n in names:
        path = shutil.which(n)
        if path:
            return path
    sys.exit(f"bench/arm.py: no {name}; Debian has it in llvm-19, or name its folder with --llvm")


def check_models(mca):
    r = subprocess.run([mca, "-march=aarch64", "-mcpu=neoverse-v2", "-iterations=1"], input="nop\n", capture_output=True, text=True)
    if r.returncode or "not a recognized" in r.stderr:
        sys.exit(f"bench/arm.py: {mca} has no model of Neoverse V2: LLVM 17 or later is needed (Debian: package llvm-19)")


def functions(objdump, obj):
    """symbol -> [(address, mnemonic, operands, target or None)]. Labels inside of a function, which assembly has, are not symbols."""
    symbols = subprocess.run([objdump, "-t", obj], capture_output=True, text=True, check=True).stdout
    known = {line.split()[-1] for line in symbols.splitlines() if re.match(r"^\S+ .{5} F ", line)}
    text = subprocess.run([objdump, "-dr", "--no-show-raw-insn", obj], capture_output=True, text=True, check=True).stdout
    out, now, equal = {}, None, {}
    for line in text.splitlines():
        r = re.match(r"^\s*([0-9a-f]+):\s+R_AARCH64_(\w+)\s*(\S*)$", line)
        if r:
            if r.group(2) == "JUMP26" and len(now) == 1:
                equal[symbol] = r.group(3)
            continue
        if line.startswith("Disassembly of section"):
            now = None
        m = re.match(r"^[0-9a-f]+ <(.+)>:$", line)
        if m:
            if now is None or m.group(1) in known:
                symbol = m.group(1).split(".")[0]
                now = out.setdefault(symbol, [])
            continue
        m = re.match(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$", line)
        if not m or now is None:
            continue
        name, ops = m.group(2), m.group(3).split("//")[0].strip()
        target = None
        if BRANCH.match(name) or name in ("bl", "adrp", "adr"):
            t = re.search(r"0x([0-9a-f]+)\s*(<|$)", ops)
            target = int(t.group(1), 16) if t and BRANCH.match(name) else None
            ops = re.sub(r"0x[0-9a-f]+\s*<.*>$", "0x1000" if name == "adrp" else "16", ops)
        now.append((int(m.group(1), 16), name, re.sub(r"\s*<[^>]*>", "", ops), target))
    begins = {code[0][0]: code for code in out.values() if code}
    for symbol, code in out.items():  # a function that is only a jump to an equal one
        if symbol in equal:
            out[symbol] = out.get(equal[symbol], code)
        elif len(code) and code[0][1] == "b" and code[0][3] in begins:
            out[symbol] = begins[code[0][3]]
    return out


def weights_of(ins, planes, stores, dots):
    """dots: the function has SDOT or SMMLA; then other multiplications are starts and addresses."""
    name, ops = ins[1], ins[2]
    if stores:
        return 16 * len(re.findall(r"\bq\d+", ops)) if name in ("str", "stp", "stur") and "sp" not in ops else 0
    if planes == FLOATS:
        whole = next((n for pattern, n in PRODUCTS if pattern.match(name) and "bf" not in name), 0)
        return whole or (16 if name == "bfmmla" else 0 if name != "fmla" else 4 if ".4s" in ops else 8 if ".8h" in ops else 0)
    if planes == PAIRS:
        return 4 if name in ("smlal", "smlal2") else 0
    if planes:
        return 64 / planes if name == "tbl" else 0
    for pattern, n in PRODUCTS:
        if pattern.match(name):
            return n
    if not dots and WIDE.match(name) and ops.startswith("v"):
        return 8 if ".8h" in ops.split(",")[0] else 4
    return 0


def loops_of(code):
    """(first, last) indices, innermost first."""
    at = {ins[0]: i for i, ins in enumerate(code)}
    found = {(at[ins[3]], i) for i, ins in enumerate(code) if ins[3] is not None and ins[3] <= ins[0] and ins[3] in at}
    return sorted(found, key=lambda r: r[1] - r[0])


def trace_of(code, groups, planes, stores=False, peer=False):
    """Straight code of one group, its weights, and the hot loop. groups: weights of a pass of the loop around the innermost, then of the
    loop around that. Of ours the other loops in there are ends of rows; of a peer all do a part of the group."""
    loops = loops_of(code)
    dots = any(p.match(i[1]) for i in code for p, _ in PRODUCTS)
    work = [weights_of(i, planes, stores, dots) for i in code]
    inner = [l for l in loops if any(work[l[0]:l[1] + 1])
             and not any(m != l and l[0] <= m[0] and m[1] <= l[1] and any(work[m[0]:m[1] + 1]) for m in loops)]
    if not inner:
        raise Odd("no loop")
    # Of tiles with more and fewer rows the one with the most sums; compilers may unroll a smaller one further.
    sums = {l: len({code[i][2].split(",")[0] for i in range(l[0], l[1] + 1) if work[i] and not planes}) for l in inner}
    hot = max(inner, key=lambda l: (sums[l], sum(work[l[0]:l[1] + 1])))
    body, n = list(code[hot[0]:hot[1] + 1]), sum(work[hot[0]:hot[1] + 1])
    if stores:
        return body, n, body
    if round(n) >= groups[0]:
        if peer and abs(n / groups[0] - round(n / groups[0])) > 1e-3:
            raise Odd(f"{n:g} products, not {groups[0]:g}")
        groups, trace, now = [n] + groups[1:], body, hot
    else:
        trace, now = nest(code, work, loops, [l for l in inner if peer or l == hot], inner, hot, groups[0])
    for less, more in zip(groups, groups[1:]):
        trace, now = nest(code, work, loops, [now], [now], now, more, {now: (trace, less)})
    return trace, groups[-1], body


def elements_of(body, stored):
    """What a pass of a loop stores, or loads: four to a register, eight where halves are stored."""
    names = ("str", "stp", "stur") if stored else ("ldr", "ldp", "ldur")
    moved = [i[2] for i in body if i[1] in names and "[sp" not in i[2]]
    registers = sum(len(re.findall(r"\bq\d+", ops)) for ops in moved)
    narrow = {"8h": 2, "16b": 4}
    last = [i[2].split(",")[0].split(".")[-1] for i in body if re.match(r"xtn2|uzp[12]|shrn2|bfcvtn2", i[1])]
    return 4 * registers * (narrow.get(last[-1], 1) if stored and last else 1)


def loop_of_elements(code, stored):
    """The innermost loop with the fewest instructions for an element. One with a return inside only jumps back."""
    loops = [l for l in loops_of(code) if not any(i[1] == "ret" for i in code[l[0]:l[1] + 1])]
    inner = [code[l[0]:l[1] + 1] for l in loops if not any(m != l and l[0] <= m[0] and m[1] <= l[1] for m in loops)]
    found = [(len(b) / elements_of(b, stored), elements_of(b, stored), b) for b in inner if elements_of(b, stored)]
    if not found:
        raise Odd("no loop")
    return min(found, key=lambda f: f[0])[1:]


def nest(code, work, loops, used, inner, hot, group, known=None):
    """Straight code of a pass of the loop around hot, where the loops of used make group, and that loop."""
    around = [l for l in loops if l != hot and l[0] <= hot[0] and hot[1] <= l[1]]
    if not around:
        raise Odd("no loop around the products")
    p = around[0]
    within = {l: (code[l[0]:l[1] + 1], sum(work[l[0]:l[1] + 1])) for l in inner if p[0] <= l[0] and l[1] <= p[1]}
    within.update(known or {})
    straight = [i for i in range(p[0], p[1] + 1) if not any(l[0] <= i <= l[1] for l in within)]
    direct, n = sum(work[i] for i in straight), sum(within[l][1] for l in used if l in within)
    times = (group - direct) / n
    if times < 1 or abs(times - round(times)) > 1e-6:
        raise Odd(f"{n:g} + {direct:g} products do not make a group of {group:g}")
    trace, begins = [], {l[0]: l for l in used if l in within}
    for i in range(p[0], p[1] + 1):
        if i in begins:
            trace += within[begins[i]][0] * round(times)
        elif i in straight:
            trace.append(code[i])
    return trace, p


def oddities(body):
    """What the counted form does not have."""
    copies = sum(1 for i in body if i[1] in ("mov", "orr") and re.match(r"v\d+\.16b, v(\d+)\.16b(, v\1\.16b)?$", i[2]))
    stack = sum(1 for i in body if i[1] in ("ldr", "str", "ldp", "stp") and "[sp" in i[2] and re.search(r"\bq\d", i[2]))
    return ", ".join([f"{copies} copies"] * (copies > 0) + [f"{stack} on the stack"] * (stack > 0))


def halve_loads(trace):
    """LDR, LDP and LD1 of whole registers as loads of 8 bytes; what a pointer moves by is an addition of its own."""
    out = []
    for ins in trace:
        m = re.match(r"ld(?:r|ur|p) (q\d+(?:, q\d+)?), \[(\w+)[^]]*(\]!|\], #.*|\])$|ld1 \{ (v\S+\.16b(?:, v\S+\.16b)*) \}, \[(\w+)\](.*)$",
                     f"{ins[1]} {ins[2]}".replace(".8h", ".16b").replace(".4s", ".16b").replace(".2d", ".16b"))
        if not m:
            out.append(ins)
            continue
        base, moves = m.group(2) or m.group(5), m.group(3) not in (None, "]") or bool(m.group(6))
        for n in re.findall(r"[qv](\d+)", m.group(1) or m.group(4)):
            out += [(ins[0], "ldr", f"d{n}, [{base}]", None)] * 2
        out += [(ins[0], "add", f"{base}, {base}, #16", None)] * moves
    return out


def cycles(mca, trace, cpu):
    name, width = CPUS[cpu]
    text = "".join(f"{i[1]} {i[2]}\n" for i in trace if i[1] != "ret")
    times = max(10, 20000 // len(trace))
    cmd = [mca, "-march=aarch64", f"-mcpu={name}", "-mattr=+dotprod,+i8mm,+bf16,+fp16fml,+fullfp16", f"-dispatch={width}", f"-iterations={times}",
           "-instruction-info=0", "-resource-pressure=0"]
    r = subprocess.run(cmd, input=text, capture_output=True, text=True)
    m = re.search(r"Total Cycles:\s+(\d+)", r.stdout)
    if not m:
        raise Odd((r.stderr.strip().splitlines() or ["llvm-mca says nothing"])[0])
    return int(m.group(1)) / times


def objects(build, compiler, folder):
    """Object files of the kernels: BUILD's own, or compiled anew by compiler."""
    with open(os.path.join(build, "compile_commands.json")) as f:
        entries = [e for e in json.load(f) if re.search(r"libtenon-(arm|hot-(neon|bf16|(kept|dots)-(dotprod|i8mm|fp16fml))).*\.p/", e["output"])
                   and e["file"].endswith(".c")]
    if not compiler:
        return [os.path.join(build, e["output"]) for e in entries]
    out = []
    for i, e in enumerate(entries):
        words = shlex.split(e["command"])
        first = next(k for k, w in enumerate(words) if "-gcc" in w or "clang" in w)
        keep = [w for w in words[first + 1:] if re.match(r"-(I|D|m|O|std|f(PIC|fp-contract|visibility|no-trapping-math))", w)]
        out.append(os.path.join(folder, f"{i}.o"))
        subprocess.run(shlex.split(compiler) + keep + ["-w", "-c", e["file"], "-o", out[-1]], cwd=build, check=True)
    return out


class Table:
    def __init__(self, a, mca, objdump):
        self.a, self.mca, self.objdump, self.bad, self.rows = a, mca, objdump, [], []

    def line(self, who, label, code, groups, planes, goal, per_cycle, stores=False, beside=None):
        """beside: our row, if this is a peer's."""
        try:
            if code is None:
                raise Odd("not there")
            trace, n, body = trace_of(code, groups, planes, stores, beside is not None)
            needs_i8mm = any(re.match(r"(us|su)dot|\w*mmla$", i[1]) for i in trace)
            cpus = [c for c in self.a.cpus if not (needs_i8mm and c in NO_I8MM)]
            with ThreadPoolExecutor(max(1, len(cpus))) as pool:
                counts = dict(zip(cpus, pool.map(lambda cpu: self.cycles(trace, cpu), cpus)))
            cells, found = [], {}
            for cpu in self.a.cpus:
                if cpu not in counts:
                    cells.append("–")
                    continue
                c = counts[cpu]
                found[cpu] = n / c if per_cycle else c * 64 / n
                cells.append(f"{found[cpu]:.1f}" if per_cycle else f"{found[cpu]:.2f}")
                self.compare(f"{who}: {label}", cpu, found[cpu], goal, per_cycle)
            self.rows.append((beside or label, beside and label, who, found, per_cycle))
            cells += [f"{len(trace) * 64 / n:.1f}", oddities(body)]
        except Odd as e:
            cells = ["–"] * (len(self.a.cpus) + 1) + [str(e)]
            self.bad.append(f"{who}: {label}: {e}")
        goals = "/".join(f"{g:g}" for g in goal) if goal else ""
        print("| " + " | ".join([f"*{label}*" if beside else label, who, goals] + cells) + " |", flush=True)

    def cycles(self, trace, cpu):
        return cycles(self.mca, halve_loads(trace) if self.a.halve_loads and cpu == "a55" else trace, cpu)

    def elements(self, who, label, code, stored):
        """A row of LOOPS: cycles for 16 elements."""
        try:
            if code is None:
                raise Odd("not there")
            n, body = loop_of_elements(code, stored)
            with ThreadPoolExecutor(len(self.a.cpus)) as pool:
                counts = list(pool.map(lambda cpu: self.cycles(body, cpu), self.a.cpus))
            cells = [f"{c * 16 / n:.1f}" for c in counts] + [f"{len(body) * 16 / n:.0f}", oddities(body)]
        except Odd as e:
            cells = ["–"] * (len(self.a.cpus) + 1) + [str(e)]
            self.bad.append(f"{who}: {label}: {e}")
        print("| " + " | ".join([label, who] + cells) + " |", flush=True)

    def beside_peers(self):
        """How many times as fast as the best peer of each CPU our rows are."""
        print("\nTimes as fast as the best peer on each CPU (over 1: ours is faster)\n")
        print("| | compiler | " + " | ".join(c.upper() for c in self.a.cpus) + " | best peers |")
        print("|---" * (3 + len(self.a.cpus)) + "|")
        for ours, peer, who, found, per_cycle in self.rows:
            if peer or not any(r[0] == ours and r[1] for r in self.rows):
                continue
            cells, names = [], []
            for cpu in self.a.cpus:
                theirs = [(r[3][cpu], r[1]) for r in self.rows if r[0] == ours and r[1] and cpu in r[3]]
                if not theirs or cpu not in found:
                    cells.append("–")
                    continue
                best, name = max(theirs) if per_cycle else min(theirs)
                cells.append(f"{found[cpu] / best if per_cycle else best / found[cpu]:.2f}")
                names += [name] * (name not in names)
                self.compare(f"{who}: {ours} beside {name}", cpu, found[cpu], (best, best), per_cycle)
            print("| " + " | ".join([ours, who] + cells + ["; ".join(names)]) + " |")

    def compare(self, what, cpu, is_now, goal, per_cycle):
        """goal: on N2 and V2."""
        if not goal or self.a.check is None or cpu not in ("n2", "v2"):
            return
        want = goal[cpu == "v2"]
        over = (want / is_now if per_cycle else is_now / want) - 1
        if over > self.a.check / 100:
            self.bad.append(f"{what}: {is_now:.2f} on {cpu.upper()}, {100 * over:.0f} % from {want:.4g}")

    def head(self, title):
        print(f"\n{title}\n\n| | compiler | goal, N2/V2 | " + " | ".join(c.upper() for c in self.a.cpus) + " | instr. per 64 | seen |")
        print("|---" * (5 + len(self.a.cpus)) + "|")


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("--compiler", action="append", default=[], metavar="NAME=COMMAND")
    p.add_argument("--llvm")
    p.add_argument("--peers", metavar="FILE")
    p.add_argument("--objects", metavar="DIR")
    p.add_argument("--only", default="", metavar="REGEX")
    p.add_argument("--cpus", default=",".join(CPUS))
    p.add_argument("--halve-loads", action="store_true")
    p.add_argument("--check", type=float, nargs="?", const=30, metavar="PERCENT")
    a = p.parse_args()
    a.cpus = a.cpus.split(",")
    for c in a.cpus:
        if c not in CPUS:
            p.error(f"--cpus {c}: one of {', '.join(CPUS)}")
    for text in a.compiler:
        if "=" not in text:
            p.error(f"{text}: NAME= is missing")
    return a


def read_peers(path, folder, objdump):
    """our row -> [(peer, compiler, code or None, groups, planes)]"""
    out, objs = {}, {}
    with open(path) as f:
        lines = [line.rstrip("\n") for line in f]
    for i, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = [w.strip() for w in line.split("\t") if w.strip()]
        if not 6 <= len(words) <= 7:
            sys.exit(f"bench/arm.py: {path}:{i}: six or seven words between tabs are expected")
        ours, peer, compiler, obj, symbol, products = words[:6]
        obj = os.path.join(folder or os.path.dirname(path), obj)
        if obj not in objs:
            if not os.path.exists(obj):
                sys.exit(f"bench/arm.py: {path}:{i}: no file {obj}")
            objs[obj] = functions(objdump, obj)
        names = [s for s in objs[obj] if s == symbol] or [s for s in objs[obj] if symbol in s]
        if len(names) > 1:
            sys.exit(f"bench/arm.py: {path}:{i}: {symbol} may be " + " or ".join(names))
        code = objs[obj][names[0]] if names else None
        for row in ours.split(";"):
            if row.strip() not in [k[0] for k in KERNELS + TILES]:
                sys.exit(f"bench/arm.py: {path}:{i}: {row.strip()} is none of our rows")
            groups = [float(p) for p in products.split(",")]
            out.setdefault(row.strip(), []).append((peer, compiler, code, groups, int((words + ["0"])[6])))
    return out


def main():
    a = parse()
    mca, objdump = tool(a.llvm, "llvm-mca"), tool(a.llvm, "llvm-objdump")
    check_models(mca)
    version = subprocess.run([mca, "--version"], capture_output=True, text=True).stdout.split("version")[1].split()[0]
    print(f"Counted by llvm-mca {version} on the machine code, not measured: no Arm machine was at hand. Data in L1.")
    table = Table(a, mca, objdump)
    peers = read_peers(a.peers, a.objects, objdump) if a.peers else {}
    with tempfile.TemporaryDirectory() as folder:
        code = {}
        for name, command in [("build", None)] + [c.split("=", 1) for c in a.compiler]:
            os.makedirs(os.path.join(folder, name))
            code[name] = {}
            for obj in objects(a.build, command, os.path.join(folder, name)):
                for symbol, ins in functions(objdump, obj).items():
                    code[name][symbol] = ins
        for title, rows, per_cycle, stores in (("GEMV, cycles per 64 weights (lower is better)", KERNELS, False, False),
                                               ("GEMM, products per cycle, weights unpacked (higher is better)", TILES, True, False),
                                               ("Unpacking, cycles per 64 weights, once for all rows of x", FILLS, False, True),
                                               ("Attention on the host, products per cycle", HOST, True, False)):
            rows = [r for r in rows if re.search(a.only, r[0]) or re.search(a.only, r[1])]
            if rows:
                table.head(title)
            for label, symbol, group, planes, goal in rows:
                for name in code:
                    table.line(name, label, code[name].get(symbol), [group], planes, goal, per_cycle, stores)
                for peer, compiler, ins, groups, lookups in peers.get(label, []):
                    table.line(compiler, peer, ins, groups, lookups, None, per_cycle, beside=label)
        rows = [r for r in LOOPS if re.search(a.only, r[0]) or re.search(a.only, r[1])]
        if rows:
            print("\nLoops over elements on the host, cycles for 16 (lower is better)\n")
            print("| | compiler | " + " | ".join(c.upper() for c in a.cpus) + " | instr. for 16 | seen |")
            print("|---" * (4 + len(a.cpus)) + "|")
        for label, symbol, stored in rows:
            for name in code:
                table.elements(name, label, code[name].get(symbol), stored)
        if peers:
            table.beside_peers()
    if a.check is not None and table.bad:
        sys.exit("bench/arm.py: not found, or far from a goal or a peer:\n  " + "\n  ".join(table.bad))


if __name__ == "__main__":
    main()
