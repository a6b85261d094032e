#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_frames.py FILE...: what each function of these libraries takes of its thread's stack (objdump, x86-64).

Refused: a function that takes more than MOST at once. An application's thread may have 512 KB in all, and where memory is
limited a stack that cannot grow ends the process without a message."""
import re
import subprocess
import sys

MOST = 80 << 10
FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:")
# The frame is taken in one step, or in a loop that touches each page up to an end computed first.
TAKES = re.compile(r"\b(?:sub\s+\$|lea\s+-)0x([0-9a-f]+)(?:,%rsp|\(%rsp\),%r)")


def frames(path):
    """(bytes, function) of the functions of a library."""
    lines = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
    name = None
    for line in lines.splitlines():
        m = FUNCTION.match(line)
        if m:
            name = m[1]
        m = TAKES.search(line)
        if m and int(m[1], 16) < 1 << 31:
            yield int(m[1], 16), name


def main(*paths):
    found, largest = [], (0, "no function")
    for path in paths:
        all_of = list(frames(path))
        if not all_of:
            found.append(f"{path}: no function takes a frame: not read")
        found += [f"{path}: {name} takes {n} bytes of stack, more than {MOST}" for n, name in all_of if n > MOST]
        largest = max([largest, *all_of])
    print("\n".join(found) or f"{len(paths)} libraries, largest frame {largest[0]} bytes: {largest[1]}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
