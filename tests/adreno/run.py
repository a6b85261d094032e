#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py TENON PLUGIN.so RUNTIME: opencl-adreno end to end on the OpenCL runtime that OCL_ICD_VENDORS names.

The demo writes text with everything on the device; the same text with a flush after each kernel, without images, and
when programs come from the cache; no product falls back; logits are the reference's. Drivers and devices that are not
there are said, and a profile that can do without them runs.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

from checks import DEMO, expect, failures

TENON, PLUGIN, RUNTIME = sys.argv[1:4]


def profile(folder, name, options="", require=True, optional=False):
    path = os.path.join(folder, name + ".yaml")
    with open(path, "w") as f:
        f.write("plugins:\n  - name: opencl-adreno\n    options: {%s}\n" % options)
        if optional:
            f.write("    optional: true\n")
        f.write("  - host\n")
        if require:
            f.write("require: [opencl-adreno]\n")
    return path


def tenon(folder, *args):
    # PoCL compiles once more for each size of a group: that is its own affair, and kept between our processes.
    env = dict(os.environ, TENON_PLUGIN_PATH=os.path.dirname(PLUGIN), TENON_CACHE_DIR=os.path.join(folder, "cache"),
               POCL_CACHE_DIR=os.path.join(folder, "pocl"), POCL_KERNEL_CACHE="1")
    done = subprocess.run([TENON, *args], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=200)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def generate(folder, path, n=12):
    return tenon(folder, "run", DEMO, "-p", "In the beginning", "-n", str(n), "--temp", "0", "--profile", path,
                 "--log-level", "debug")


def builds(err):
    """(from source, from the cache) of the device that was open longest."""
    found = re.findall(r"(\d+) programs from source, (\d+) from the cache", err)
    return (int(found[-1][0]), int(found[-1][1])) if found else (-1, -1)


def texts(folder):
    any_device = profile(folder, "any", "device_type: any")
    code, text, err = generate(folder, any_device)
    expect(code == 0 and text.strip().startswith("of the reign of"), "the demo writes text", text + err)
    first = builds(err)
    expect(first[0] > 5, "a first start compiles", str(first) + err)
    code, again, err = generate(folder, any_device)
    expect(code == 0 and again == text, "the second start writes the same", again + err)
    expect(builds(err)[0] == 0 and builds(err)[1] > 5, "the second start compiles nothing", str(builds(err)) + err)
    if RUNTIME == "pocl":  # compiles for each size of a group in every process: as little as shows something
        return
    for name, more in (("flush", "flush_every: 1"), ("buffers", "images: false"), ("normal", "priority: normal")):
        code, other, err = generate(folder, profile(folder, name, "device_type: any, " + more))
        expect(code == 0 and other == text, "the same text with " + more, other + err)
    code, other, err = generate(folder, profile(folder, "storage", "device_type: any, fp16: false"))
    expect(code == 0 and other.strip().startswith("of the reign of"), "text with half as storage only", other + err)


def placement(folder):
    path = profile(folder, "any", "device_type: any")
    code, out, err = tenon(folder, "check", DEMO, "--profile", path, "--format", "csv")
    rows = [l.split(",") for l in out.splitlines()]
    products = [r for r in rows if len(r) > 2 and "MatMul" in r[1]]
    expect(code == 0 and len(products) > 20, "check lists the products", out + err)
    expect(all("opencl-adreno" in r[2] for r in products), "no product falls back", out)
    expect(not any(len(r) > 2 and r[2] == "host" for r in rows), "nothing runs on the host", out)


def numbers(folder):
    text = os.path.join(folder, "text.txt")
    with open(text, "w") as f:
        f.write("And God said, Let there be light: and there was light. And God saw the light, that it was good. " * 2)
    for name in ("e0m4",) if RUNTIME == "pocl" else ("e0m2", "e0m3", "e0m4", "e0m8"):
        path = profile(folder, name, "device_type: any, format: " + name)
        code, out, err = tenon(folder, "eval", DEMO, "--text", text, "--max-tokens", "24", "--against", "reference",
                               "--profile", path, "--format", "json")
        report = json.loads(out) if code == 0 else {}
        kl = float(report.get("kl_divergence", 1))
        expect(code == 0 and kl < 1e-4, "logits of %s are the reference's (KL %g)" % (name, kl), out + err)


def operations(folder):
    """Each operation from its own inputs, within the bound of its type and length: other exports, with and without past."""
    path = profile(folder, "exports", "device_type: any", False)
    for name in ("gemma", "gpt2", "qwen2"):
        data = os.path.join(os.environ.get("TENON_TEST_DATA", ""), "onnx", "exports", name)
        if not os.path.exists(os.path.join(data, "model.onnx")):
            print("skipped: no %s" % data)
            continue
        code, out, err = tenon(folder, "verify", os.path.join(data, "model.onnx"), "--data", data, "--against", "reference",
                               "--profile", path)
        line = [l for l in out.splitlines() if l.startswith("each task")]
        expect(code == 0 and line and int(line[0].split()[2]) > 20, "%s: %s" % (name, line[0] if line else "no tasks"), out + err)


def refusals(folder):
    lost = profile(folder, "lost", 'libraries: "libno-such-driver.so"')
    code, out, err = generate(folder, lost, 2)
    expect(code != 0 and "libno-such-driver.so" in err, "a missing driver is named", out + err)
    code, out, err = generate(folder, profile(folder, "without", 'libraries: "libno-such-driver.so"', False, True), 2)
    expect(code == 0 and out.strip(), "a profile that can do without it runs", out + err)
    code, out, err = generate(folder, profile(folder, "gpu", "device_type: gpu"), 2)
    expect(code != 0 and "gpu" in err, "no GPU is said", out + err)
    code, out, err = generate(folder, profile(folder, "named", "device_type: any, device: Nonesuch"), 2)
    expect(code != 0 and "option device" in err, "another device name is said", out + err)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "cache"))
        texts(folder)
        placement(folder)
        numbers(folder)
        if RUNTIME != "pocl":
            operations(folder)
        refusals(folder)
    print("%s: %d failed" % (RUNTIME, len(failures)))
    sys.exit(1 if failures else 0)


main()
