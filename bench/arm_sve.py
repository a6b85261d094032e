#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What vectors of 256 bits would bring to cpu-neon-lut on Neoverse V1, the one core with a model in LLVM that has them:
bench/arm_sve.c, counted as bench/arm.py counts.

  bench/arm_sve.py [--compiler aarch64-linux-gnu-gcc] [--llvm DIR]

Python's standard library only."""
import argparse
import os
import subprocess
import tempfile

import arm

LOOPS = [("`w4g`, groups of 32, one row", "gemv_w4g32", 32 * 16, False), ("`w4g`, groups of 128, one row", "gemv_w4g128", 128 * 16, False),
         ("SMMLA, groups of 32", "tile_g32", 4 * 16 * 32, True), ("SMMLA, groups of 128", "tile_g128", 4 * 16 * 128, True)]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--compiler", default="aarch64-linux-gnu-gcc")
    p.add_argument("--llvm", help="folder of llvm-mca and llvm-objdump")
    a = p.parse_args()
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "arm_sve.c")
    with tempfile.TemporaryDirectory() as folder:
        obj = os.path.join(folder, "sve.o")
        subprocess.run([a.compiler, "-O2", "-mtune=neoverse-v1", "-march=armv8.2-a+sve+i8mm", "-msve-vector-bits=256", "-c", source, "-o", obj], check=True)
        code = arm.functions(arm.tool(a.llvm, "llvm-objdump"), obj)
        print("| vectors of 256 bits, V1 | cycles for 64 weights; products a cycle | instructions of a group |\n|---|---|---|")
        for label, symbol, products, per_cycle in LOOPS:
            body = arm.trace_of(code[symbol], [products / 2], 0)[0]  # arm.py takes registers to have 128 bits
            cycles = arm.cycles(arm.tool(a.llvm, "llvm-mca"), body, "v1")
            print(f"| {label} | {products / cycles if per_cycle else cycles * 64 / products:.2f} | {len(body)} |")


if __name__ == "__main__":
    main()
