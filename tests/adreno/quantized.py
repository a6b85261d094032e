#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""quantized.py TENON ADRENO.so MALI.so: the demo, brought by `tenon quantize --weights` onto the grids of e0m2, e0m3, e0m4 and
e0m8, rounded and under the solver. What both OpenCL plugins pack of it unpacks to the model's own weights, bit for bit. A
table of embeddings that is quantized stays with the host, which unpacks rows alone."""
import json
import os
import subprocess
import sys
import tempfile

from checks import DEMO, SOURCE, expect, failures

TENON, PLUGINS = sys.argv[1], {"opencl-adreno": sys.argv[2], "opencl-mali": sys.argv[3]}
TEXT = os.path.join(SOURCE, "models", "train", "valid.json")


def tenon(folder, plugin, options, *args):
    path = os.path.join(folder, "p.yaml")
    with open(path, "w") as f:
        f.write("plugins:\n  - name: %s\n    options: {device_type: any%s}\n  - host\nrequire: [%s]\n" % (plugin, options, plugin))
    env = dict(os.environ, TENON_PLUGIN_PATH=os.path.dirname(PLUGINS[plugin]), TENON_CACHE_DIR=os.path.join(folder, "cache"))
    done = subprocess.run([TENON, *args, "--profile", path], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=240)
    return done.returncode, done.stdout, done.stderr


def packed(folder, plugin, model, options=""):
    """Formats of all packed matrices, and whether every weight is the model's."""
    code, out, err = tenon(folder, plugin, options, "pack", model, "--report", "--format", "json")
    if code != 0:
        return {}, False, out + err
    j = json.loads(out)
    exact = all(t["max_of_group"] == 0 and t["rms"] == 0 for t in j["tensors"])
    return j["devices"][0]["formats"], exact, json.dumps(j["total"])


def main():
    grids = [("e0m2", ["--weights", "e0m2", "--round"]), ("e0m3", ["--weights", "e0m3", "--text", TEXT, "--max-tokens", "200"]),
             ("e0m4", ["--weights", "e0m4", "--round"]), ("e0m8", ["--weights", "e0m8", "--round"]),
             ("e0m4", ["--bits", "4", "--block", "128", "--round"])]
    with tempfile.TemporaryDirectory() as folder:
        for i, (name, args) in enumerate(grids):
            model, what = os.path.join(folder, "m%d" % i), " ".join(a for a in args if a != TEXT)
            code, out, err = tenon(folder, "opencl-mali", "", "quantize", DEMO, "-o", model, *args)
            expect(code == 0, "quantize %s" % what, out + err)
            for plugin in PLUGINS if code == 0 else ():
                formats, exact, detail = packed(folder, plugin, model)
                expect(list(formats) == [name] and formats[name] > 20, "%s packs %s as %s" % (plugin, what, name), str(formats) + detail)
                expect(exact, "%s keeps all weights of %s" % (plugin, what), detail)
        formats, exact, detail = packed(folder, "opencl-mali", os.path.join(folder, "m0"), ", format: e0m4")
        expect(list(formats) == ["e0m4"] and exact, "two bits are kept in four, where an option says so", str(formats) + detail)
        formats, exact, detail = packed(folder, "opencl-mali", os.path.join(folder, "m3"), ", format: e0m4")
        expect(list(formats) == ["e0m4"] and not exact, "eight bits are not", str(formats) + detail)
        model = os.path.join(folder, "table")
        code, out, err = tenon(folder, "opencl-mali", "", "quantize", DEMO, "-o", model, "--round", "--embeddings", "8:32")
        expect(code == 0, "quantize --embeddings", out + err)
        for plugin in PLUGINS if code == 0 else ():
            code, out, err = tenon(folder, plugin, "", "check", model, "--format", "json")
            devices = {n["device"] for n in json.loads(out)["nodes"] if n["op"] == "Gather"} if code == 0 else set()
            expect(devices == {"host"}, "%s leaves the quantized table to the host" % plugin, str(devices) + err)
            code, out, err = tenon(folder, plugin, "", "run", model, "-p", "Once upon a time", "-n", "4", "--temp", "0", "--ids")
            expect(code == 0 and len(out.split()) > 4, "%s runs it" % plugin, out + err)
    sys.exit(1 if failures else 0)


main()
