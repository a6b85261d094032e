#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""layer.py TENON PLUGIN.so LAYER.so: opencl-adreno on what tests/cl-layer makes look like an Adreno.

Counted outside of the plugin: what a decode step makes, submits and reads back; programs on a second start. The text is
the same in every mode of the layer; builds that fail or crash, and devices that are lost, end in what the docs say.
"""
import os
import subprocess
import sys
import tempfile

from checks import DEMO, SOURCE, expect, failures

TENON, PLUGIN, LAYER = sys.argv[1:4]
PROFILE = os.path.join(SOURCE, "configs", "opencl-adreno.yaml")


def run(folder, layer, n=8, cache="cache", profile=PROFILE):
    report = os.path.join(folder, "counts")
    if os.path.exists(report):
        os.unlink(report)
    where = os.path.join(folder, cache)
    os.makedirs(where, exist_ok=True)
    env = dict(os.environ, TENON_PLUGIN_PATH=os.path.dirname(PLUGIN), TENON_CACHE_DIR=where, OPENCL_LAYERS=LAYER,
               TENON_CL_LAYER="as=adreno report=%s %s" % (report, layer))
    done = subprocess.run([TENON, "run", DEMO, "-p", "In the beginning", "-n", str(n), "--temp", "0", "--profile", profile,
                           "--log-level", "debug"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=200)
    counts = {}
    if os.path.exists(report):
        counts = {l.split()[0]: int(l.split()[1]) for l in open(report) if len(l.split()) == 2 and l.split()[1].isdigit()}
    return done.returncode, done.stdout.decode(), done.stderr.decode(), counts


def steps(folder):
    code, text, err, first = run(folder, "")
    expect(code == 0 and text.strip().startswith("of the reign of"), "text on the layer's device", text + err)
    expect("(layer)" in err, "the layer's device was used", err)
    expect(first.get("priority_hints") == 1 and not first.get("priority_errors"), "one priority hint, taken", first)
    expect(first.get("images", 0) > 20, "weights have images", first)
    code, again, err, a = run(folder, "", 8)
    code2, longer, err2, b = run(folder, "", 24)
    expect(code == 0 and code2 == 0 and again == text and longer.startswith(text.strip("\n")[:20]), "text again", err + err2)
    expect(a.get("source_builds") == 0 and a.get("binary_builds", 0) > 5, "a second start builds nothing from source", a)
    for what in ("objects", "kernels", "programs", "buffers", "images", "contexts"):
        expect(a.get(what, -1) == b.get(what, -2), "16 steps more make no %s" % what, (a, b))
    for what in ("flushes", "reads"):
        per = b.get(what, 0) - a.get(what, 0)
        expect(per == 16, "one of %s per step (%d in 16)" % (what, per), (a, b))
    expect(b["args_set"] == a["args_set"], "no argument is set in a step", (a, b))
    expect(b.get("bytes_shadow") == 0 and b.get("bytes_between") == 0, "nothing is copied on unified memory", b)
    return text


def modes(folder, text):
    for layer in ("discrete", "hide=images", "hide=priority", "fail_build=gather"):
        code, other, err, counts = run(folder, layer, cache="cache-" + layer)
        expect(code == 0 and other == text, "the same text with " + layer, other + err)
        if layer == "hide=images":
            expect(counts.get("images") == 0, "without images none is made", counts)
        if layer == "hide=priority":
            expect(counts.get("priority_hints") == 0, "no hint where the device has none", counts)


def accidents(folder):
    waiting = os.path.join(folder, "waiting.yaml")
    with open(waiting, "w") as f:
        f.write("plugins:\n  - {name: opencl-adreno, options: {completion: wait}}\n  - host\nrequire: [opencl-adreno]\n")
    code, out, err, _ = run(folder, "callback=drop", profile=waiting)
    expect(code == 0 and out.strip().startswith("of the reign of"), "a driver that loses callbacks, option completion", (code, err))
    code, out, err, _ = run(folder, "lose=200", cache="cache-lost")
    expect(code == 5 and "DEVICE_LOST" in err, "a lost device is code 5 and says so", (code, err))
    code, out, err, _ = run(folder, "lose_event=150", cache="cache-lost")
    expect(code == 5, "a step that never succeeds is code 5", (code, err))
    code, out, err, _ = run(folder, "crash_build=attn", cache="cache-crash")
    expect(code != 0, "the compiler ends the process", (code, err))
    code, out, err, _ = run(folder, "", cache="cache-crash")
    expect(code == 0 and out.strip() and "crashed" in err, "the next start leaves that kernel out", (code, out, err))
    code, out, err, _ = run(folder, "fail_alloc=20", cache="cache-memory")
    expect(code in (0, 1, 2, 3, 4, 5, 6, 7) and "egmentation" not in err, "an allocation that fails is no crash", (code, err))
    code, out, err, _ = run(folder, "no_devices")
    expect(code != 0 and "has no device here" in err, "no device is said", err)


def main():
    with tempfile.TemporaryDirectory() as folder:
        text = steps(folder)
        modes(folder, text)
        accidents(folder)
    print("%d failed" % len(failures))
    sys.exit(1 if failures else 0)


main()
