#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the cases where they are not there, then runs them.

usage: run.py RUNNER FOLDER [--update] [arguments of the runner]

FOLDER/cases-VERSION is made once per version of the onnx package and of make_cases.py; runs at the same time wait for the
one that makes it. --update runs everything both ways and takes the lines out of skips.txt whose case passes. Exit 77
where Python has no onnx.
"""
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPS = os.path.join(HERE, "skips.txt")


def cases(folder):
    try:
        import onnx
    except ImportError as e:
        print("skipped:", e)
        sys.exit(77)
    with open(os.path.join(HERE, "make_cases.py"), "rb") as f:
        key = hashlib.sha256(f.read()).hexdigest()[:8]
    path = os.path.join(folder, f"cases-{onnx.__version__}-{key}")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "cases.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(path):
            sys.path.insert(0, HERE)
            import make_cases

            for old in os.listdir(folder):
                if old.startswith("cases-"):
                    shutil.rmtree(os.path.join(folder, old))
            make_cases.make(path + ".part")
            os.rename(path + ".part", path)
    return path


def passed(runner, root, way):
    with tempfile.TemporaryDirectory() as tmp:
        names = os.path.join(tmp, "passed")
        subprocess.run([runner, "--way", way, "--skips", SKIPS, "--passed", names, "--root", root], stdout=subprocess.DEVNULL,
                       check=False)
        with open(names) as f:
            return set(f.read().split())


def update(runner, root):
    ran = {way: passed(runner, root, way) for way in ("run", "kernels")}
    with open(SKIPS) as f:
        lines = f.readlines()
    kept = []
    for line in lines:
        words = line.split(None, 2)
        if line.startswith("#") or len(words) < 3:
            kept.append(line)
            continue
        name, way, reason = words
        ways = [w for w in ("run", "kernels") if way in ("all", w) and name not in ran[w]]
        if len(ways) == (2 if way == "all" else 1):
            kept.append(line)
        elif ways:
            kept.append(f"{name} {ways[0]} {reason}")
    with open(SKIPS, "w") as f:
        f.writelines(kept)
    print(f"{SKIPS}: {len(lines) - len(kept)} lines fewer")


def main():
    runner, folder, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
    root = cases(folder)
    if "--update" in rest:
        update(runner, root)
        return 0
    os.environ.setdefault("TENON_TEST_SOURCE", os.path.dirname(os.path.dirname(HERE)))
    sys.stdout.flush()
    return subprocess.run([runner, "--skips", SKIPS, "--root", root, *rest], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
