#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time of a GEMV over 1 to 4 bit planes, and how well a straight line fits it.

usage: planes.py BUILD/tests/kernels/kernels-test

Prints microseconds of thread time for 512 x 4096 (the least of 200 rounds; weights in the second-level cache, so that the kernel
and not the memory is seen), the line a + b * planes by least squares, and beside it the 4-bit kernels by dot product.
"""
import subprocess
import sys


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    out = subprocess.run([sys.argv[1], "--bench", "--only", "planes"], capture_output=True, text=True, check=True).stdout
    rows = {n: (float(t), float(p)) for n, t, p in (line.split() for line in out.splitlines())}
    y = [rows[f"lut{b}"][0] for b in (1, 2, 3, 4)]
    mean = sum(y) / 4
    slope = sum((b - 2.5) * (v - mean) for b, v in zip((1, 2, 3, 4), y)) / 5
    start = mean - 2.5 * slope
    rest = sum((start + slope * b - v) ** 2 for b, v in zip((1, 2, 3, 4), y))
    r2 = 1 - rest / sum((v - mean) ** 2 for v in y)
    for name, (gemv, before) in rows.items():
        print(f"{name:8} gemv {gemv:8.2f} us   prologue {before:6.2f} us")
    print(f"fit      {start:.2f} + {slope:.2f} x planes us, R2 {r2:.4f}; planes 4 : 2 : 1 = {y[3] / y[0]:.2f} : {y[1] / y[0]:.2f} : 1")


if __name__ == "__main__":
    main()
