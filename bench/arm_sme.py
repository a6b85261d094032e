#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions of cpu-neon-lut's SME tiles for one group of weights, counted along the path that they take. No model of a
processor with SME is in LLVM, so these are counts and no cycles.

  bench/arm_sme.py BUILD [--objdump llvm-objdump-19]

BUILD is a build for aarch64 (scripts/aarch64.sh). Two tiles of 16 rows by 16 outputs, vectors of 64 bytes. Python's
standard library only.
"""
import argparse
import os
import re
import subprocess
import sys

KINDS = {"bytes": 0, "LUTI4": 1, "LUTI2": 2}
ENDINGS = {"fma": 0, "zero points": 1, "f32 zero points": 2, "product and sum": 3}
KIND, ENDING, QUADS = 120, 128, 96  # of tni_sme_call (tiles_sme.h)


def disassembled(objdump, path, symbol):
    text = subprocess.run([objdump, "-d", "--no-show-raw-insn", "--mattr=+all", f"--disassemble-symbols={symbol}", path],
                          capture_output=True, text=True, check=True).stdout
    return [(int(m[1], 16), m[2], m[3].split("<")[0].strip()) for m in re.finditer(r"^\s*([0-9a-f]+):\s+(\S+)[ \t]*(.*)$", text, re.M)]


def walk(code, start, kind, ending, quads, rows):
    """What is executed from the begin of a group until the branch back to it. rows: of a tile that ends row by row."""
    at = {a: i for i, (a, _, _) in enumerate(code)}
    i, x10, left, equal, lower, row, done = start, 0, 0, False, False, 0, []
    while True:
        address, op, args = code[i]
        done.append(op)
        i += 1
        jump = False
        if op == "ldr" and (m := re.match(r"x(10|24), \[x0, #(0x[0-9a-f]+|\d+)\]", args)):
            value = {KIND: kind, ENDING: ending, QUADS: quads}.get(int(m[2], 0), 0)
            if m[1] == "10":
                x10 = value
            else:
                left = value
        elif op == "mov" and args.startswith("w12, #0"):
            row = 0
        elif op == "add" and args.startswith("w12, w12, #"):
            row += int(args.split("#")[1], 0)
        elif op == "cmp":
            equal = x10 == int(args.split("#")[1], 0) if args.startswith("x10") else equal
            lower = row < rows if args.startswith("x12") else lower
        elif op == "subs" and args.startswith("x24"):
            left -= 4
            equal = left == 0
        elif op == "subs":
            equal = False  # more groups follow
        elif op == "cbz":
            jump = x10 == 0
        elif op.startswith("b."):
            jump = {"b.eq": equal, "b.ne": not equal, "b.lo": lower}[op]
        elif op == "b":
            jump = True
        if jump:
            target = at[int(args.split()[-1], 16)]
            if target == start:
                return done
            i = target


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("--objdump", default="llvm-objdump-19")
    a = p.parse_args()
    path = os.path.join(a.build, "plugins/cpu-neon-lut/libtenon-arm-assembly.a.p/kernels_tiles_sme.S.o")
    print("| instructions for a group of two tiles, products for each of them | SMOPA | g32 | g128 |\n|---|---|---|---|")
    for symbol, kinds in (("tni_arm_tiles_sme", ["bytes"]), ("tni_arm_tiles_sme2", KINDS)):
        code = disassembled(a.objdump, path, symbol)
        heads = [i for i, (_, op, args) in enumerate(code) if op == "ldr" and args.startswith("x23, [x6], #")]
        if not heads:
            sys.exit(f"{path}: {symbol} has no group")
        start = heads[-2]  # the longest vectors, two tiles
        for kind in kinds:
            for name, ending in ENDINGS.items() if kind == "bytes" else [("fma", 0)]:
                cells = []
                for group in (32, 128):
                    ops = walk(code, start, KINDS[kind], ending, group // 4, 16)
                    cells.append(f"{len(ops)}, {2 * 16 * 16 * group / len(ops):.0f}")
                smopa = ops.count("smopa")
                print(f"| {symbol[-4:].strip('_')}: {kind}, {name} | {smopa // 4}, {smopa} | {cells[0]} | {cells[1]} |")


if __name__ == "__main__":
    main()
