# SPDX-License-Identifier: Apache-2.0
"""Operators of com.microsoft against ONNX Runtime: models of one node with random attributes, operands and inputs.

    check_contrib.py TENON [FILTER]

f32; each element must be within 2e-5 of the largest |value| of its output, f16 2e-3. Exit 77 without onnx or onnxruntime.
"""
import pathlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto as T, helper, numpy_helper
except ImportError as e:
    print("skipped:", e)
    sys.exit(77)

MS = "com.microsoft"
BOUND = {np.dtype(np.float32): 2e-5, np.dtype(np.float16): 2e-3}


class Case:
    """One node. inputs: name -> array, or (array,) for an initializer; None is absent. compare: which results (None: all).
    oracle: a case that says the same and that ONNX Runtime's CPU provider can run. refuse: what the message of the refusal
    must hold, beside the node's name; late: inputs are refused, not the model. options: of the command. dims: of an input, as the model declares them."""

    def __init__(self, name, op, inputs, n_out=1, domain=MS, bound=None, compare=None, oracle=None, refuse=None, late=False,
                 options=(), dims=None, **attrs):
        self.name, self.op, self.inputs, self.n_out, self.domain = name, op, inputs, n_out, domain
        self.attrs, self.bound, self.compare, self.oracle, self.refuse = attrs, bound, compare, oracle, refuse
        self.late, self.options, self.dims = late, options, dims or {}

    def model(self):
        names, graph_in, init, self.feeds = [], [], [], {}
        for k, v in self.inputs.items():
            const = isinstance(v, tuple)
            v = v[0] if const else v
            if v is None:
                names.append("")
                continue
            names.append(k)
            if const:
                init.append(numpy_helper.from_array(v, k))
            else:
                graph_in.append(helper.make_tensor_value_info(
                    k, helper.np_dtype_to_tensor_dtype(v.dtype),
                    self.dims.get(k) or [f"{k}_{i}" if n != 1 else 1 for i, n in enumerate(v.shape)]))
                self.feeds[k] = v
        while names and not names[-1]:
            names.pop()
        outs = [f"y{i}" if i < self.n_out and (not self.compare or i in self.compare) else ""
                for i in range(self.n_out)]
        node = helper.make_node(self.op, names, outs, name="node", domain=self.domain, **self.attrs)
        kinds = [onnx.ValueInfoProto(name=o) for o in outs if o]
        graph = helper.make_graph([node], "one", graph_in, kinds, init)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)],
                                 ir_version=9)


def run(tenon, case, folder):
    model = case.model()
    path = folder / "model.onnx"
    onnx.save(model, path)
    args = ["--profile", "host", *case.options]
    for k, v in case.feeds.items():
        np.save(folder / f"{k}.npy", v)
        args += ["--in", f"{k}={folder}/{k}.npy"]
    out = folder / "out"
    out.mkdir()
    if case.refuse and case.late:
        r = subprocess.run([tenon, "infer", path, *args, "--out", out], capture_output=True, text=True)
        right = r.returncode in (3, 4) and "node:" in r.stderr and case.refuse in r.stderr
        return None if right else f"{case.name}: {r.returncode} instead of a refusal with '{case.refuse}': {r.stderr}"
    if case.refuse:
        r = subprocess.run([tenon, "inspect", path, "--profile", "host"], capture_output=True, text=True)
        right = r.returncode in (3, 4) and "'node'" in r.stderr and case.refuse in r.stderr
        return None if right else f"{case.name}: {r.returncode} instead of a refusal with '{case.refuse}': {r.stderr}"
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        told = case.oracle or case
        text = (told.model() if case.oracle else model).SerializeToString()
        s = ort.InferenceSession(text, options, providers=["CPUExecutionProvider"])
        want = dict(zip([o.name for o in s.get_outputs()], s.run(None, told.feeds)))
    except Exception as e:
        return f"{case.name}: onnxruntime: {str(e).splitlines()[0][:200]}"
    r = subprocess.run([tenon, "infer", path, *args, "--out", out], capture_output=True, text=True)
    if r.returncode:
        return f"{case.name}: {r.stderr.strip()}"
    bad = []
    for name, w in want.items():
        got = np.load(out / f"{name}.npy")
        if got.shape != w.shape or got.dtype != w.dtype:
            bad.append(f"{name} is {got.dtype} {got.shape}, not {w.dtype} {w.shape}")
            continue
        scale = max(float(np.abs(w.astype(np.float64)).max(initial=0)), 1e-3)
        worst = float(np.abs(got.astype(np.float64) - w.astype(np.float64)).max(initial=0)) / scale
        bound = case.bound or BOUND.get(w.dtype, 0)
        if not worst <= bound:
            bad.append(f"{name}: {worst:.3g} of the largest value, bound {bound:g}")
    return f"{case.name}: {'; '.join(bad)}" if bad else None


# --- cases ---

def f(rng, *shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def activations(r):
    x, b = f(r, 2, 3, 16), f(r, 16)
    for op in ("Gelu", "FastGelu", "QuickGelu"):
        yield Case(op, op, {"x": x})
    yield Case("QuickGelu alpha", "QuickGelu", {"x": x}, alpha=0.7)
    yield Case("FastGelu bias", "FastGelu", {"x": x, "b": (b,)})
    yield Case("BiasGelu", "BiasGelu", {"x": x, "b": (b,)})


def matmuls(r):
    for a_shape, b_shape, more in (((2, 3, 4, 5), (2, 3, 5, 6), {}), ((2, 3, 5, 4), (2, 3, 5, 6), {"transA": 1}),
                                   ((4, 5), (6, 5), {"transB": 1, "alpha": 0.25}),
                                   ((2, 5, 4), (2, 6, 5), {"transA": 1, "transB": 1, "alpha": 2.0}),
                                   ((4, 2, 5), (2, 5, 6), {"transBatchA": 1}), ((5,), (5, 3), {})):
        for op in ("FusedMatMul", "TransposeMatMul"):
            if op == "TransposeMatMul" and "transBatchA" in more:
                continue
            yield Case(f"{op} {more}", op, {"a": f(r, *a_shape), "b": f(r, *b_shape)}, **more)


def norms(r):
    x, skip, g, b, bias = f(r, 2, 3, 16), f(r, 2, 3, 16), f(r, 16), f(r, 16), f(r, 16)
    for domain in ("", MS):
        if domain == "":
            yield Case("SimplifiedLayerNormalization", "SimplifiedLayerNormalization", {"x": x, "g": (g,)}, n_out=2,
                       domain=domain, epsilon=1e-3)
    for s in (skip, skip[:1], skip[0]):
        for with_bias in (None, (bias,)):
            yield Case(f"SkipLayerNormalization {s.shape}", "SkipLayerNormalization",
                       {"x": x, "s": s, "g": (g,), "b": (b,), "bias": with_bias}, n_out=4, compare=(0, 3), epsilon=1e-5)
            yield Case(f"SkipSimplifiedLayerNormalization {s.shape}", "SkipSimplifiedLayerNormalization",
                       {"x": x, "s": s, "g": (g,), "bias": with_bias}, n_out=4, compare=(0, 3))
    yield Case("SkipLayerNormalization no beta", "SkipLayerNormalization", {"x": x, "s": skip, "g": (g,)})
    ids, seg = r.integers(0, 20, (2, 5)).astype(np.int32), r.integers(0, 2, (2, 5)).astype(np.int32)
    pos = r.integers(0, 9, (2, 5)).astype(np.int32)
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int32)
    word, ptab, stab = f(r, 20, 16), f(r, 9, 16), f(r, 2, 16)
    for with_seg in (True, False):
        for m in (None, mask):
            for p in (None, pos):
                yield Case("EmbedLayerNormalization", "EmbedLayerNormalization",
                           {"ids": ids, "seg": seg if with_seg else None, "word": (word,), "pos": (ptab,),
                            "segt": (stab,) if with_seg else None, "g": (g,), "b": (b,), "mask": m, "positions": p},
                           n_out=3, compare=(0, 1, 2) if m is not None else (0, 2), epsilon=1e-6)


def rotary(r):
    for rank in (3, 4):
        for interleaved in (0, 1):
            for dim in (0, 4):
                for offset in (True, False):
                    if dim and rank == 4:
                        continue
                    size, heads = 8, 3
                    x = f(r, 2, 5, heads * size) if rank == 3 else f(r, 2, heads, 5, size)
                    half = (dim or size) // 2
                    pos = np.array([2], np.int64) if offset else r.integers(0, 10, (2, 5)).astype(np.int64)
                    more = {"num_heads": heads, "rotary_embedding_dim": dim} if dim else {}
                    yield Case(f"RotaryEmbedding rank {rank} dim {dim}", "RotaryEmbedding",
                               {"x": x, "pos": pos, "cos": (f(r, 10, half),), "sin": (f(r, 10, half),)},
                               interleaved=interleaved, **more)


def attention(r):
    B, S, N, H = 2, 4, 3, 8
    D = N * H
    for past in (0, 3):
        for mask in (None, "ends", "both", "two", "three"):
            for causal in (0, 1):
                for bias in (False, True):
                    if bias and (past or mask in ("ends", "both")):
                        continue
                    T_ = S + past
                    m = {None: None, "ends": np.array([T_, T_ - 1], np.int32),
                         "both": np.array([T_, T_ - 1, 1, 0], np.int32),
                         "two": r.integers(0, 2, (B, T_)).astype(np.int32),
                         "three": r.integers(0, 2, (B, S, T_)).astype(np.int32)}[mask]
                    if m is not None and m.ndim > 1:
                        m[..., 0] = 1
                    if mask == "both" and past:
                        continue
                    v = {"x": f(r, B, S, 10), "w": (f(r, 10, 3 * D),), "b": (f(r, 3 * D),), "m": m,
                         "past": f(r, 2, B, N, past, H) if past else None,
                         "bias": f(r, 1, N, S, T_) if bias else None}
                    yield Case(f"Attention past {past} mask {mask} causal {causal} bias {bias}", "Attention", v,
                               n_out=2, num_heads=N, unidirectional=causal)
    yield Case("Attention sizes", "Attention", {"x": f(r, B, S, 10), "w": (f(r, 10, 2 * D + N * 4),),
                                                "b": (f(r, 2 * D + N * 4),)}, num_heads=N,
               qkv_hidden_sizes=[D, D, N * 4], scale=0.3)


def multi_head(r):
    B, S, L, N, H = 2, 4, 5, 3, 8
    D = N * H
    for form in ("three", "packed qkv", "packed kv", "cross"):
        for mask in (None, "two"):
            for bias in (False, True):
                for add in (False, True):
                    n = S if form == "packed qkv" else L
                    v = {"q": f(r, B, S, D), "k": f(r, B, n, D), "v": f(r, B, n, D)}
                    plain = dict(v)
                    if form == "packed qkv":
                        v = {"q": np.stack([x.reshape(B, S, N, H) for x in v.values()], 3), "k": None, "v": None}
                    if form == "packed kv":
                        kv = np.stack([v[x].reshape(B, n, N, H) for x in "kv"], 3)
                        v = {"q": v["q"], "k": kv, "v": None}
                    if form == "cross":
                        v = {"q": f(r, B, S, D), "k": f(r, B, N, n, H), "v": f(r, B, N, n, H)}
                    if bias and form != "three":
                        continue
                    m = r.integers(0, 2, (B, n)).astype(np.int32)
                    m[:, 0] = 1
                    rest = dict(b=(f(r, 3 * D),) if bias else None, m=m if mask else None,
                                a=f(r, B, N, S, n) if add else None)
                    same = Case("", "MultiHeadAttention", dict(plain, **rest), num_heads=N)
                    yield Case(f"MultiHeadAttention {form} mask {mask} bias {bias} add {add}", "MultiHeadAttention",
                               dict(v, **rest), oracle=same if "packed" in form else None, num_heads=N)
    for causal in (0, 1):
        v = {"q": f(r, B, S, D), "k": f(r, B, S, D), "v": f(r, B, S, D), "b": None, "m": None, "a": None,
             "pk": f(r, B, N, 3, H), "pv": f(r, B, N, 3, H)}
        yield Case("MultiHeadAttention past", "MultiHeadAttention", v, n_out=3, num_heads=N, unidirectional=causal,
                   scale=0.4)


def gqa(r):
    N, K, H = 4, 2, 16
    for dtype in (np.float32, np.float16):
        for packed in (False, True):
            for turn in (None, 0, 1):
                for S, P in ((5, 0), (1, 4), (3, 4)):
                    for more in ({}, {"local_window_size": 3}, {"softcap": 2.0, "scale": 0.3}, {"smooth_softmax": 1},
                                 {"sink": 1}):
                        if dtype == np.float16 and (packed or turn == 1):
                            continue
                        if more and (turn == 1 or packed):
                            continue
                        half, B = H // 2, 1 if S > 1 and P else 2  # what ONNX Runtime takes
                        v = {"q": f(r, B, S, (N + 2 * K if packed else N) * H, dtype=dtype),
                             "k": None if packed else f(r, B, S, K * H, dtype=dtype),
                             "v": None if packed else f(r, B, S, K * H, dtype=dtype),
                             "pk": f(r, B, K, P, H, dtype=dtype), "pv": f(r, B, K, P, H, dtype=dtype),
                             "seq": np.full((B,), P + S - 1, np.int32), "total": (np.array(P + S, np.int32),),
                             "cos": (f(r, 16, half, dtype=dtype),) if turn is not None else None,
                             "sin": (f(r, 16, half, dtype=dtype),) if turn is not None else None}
                        attrs = dict(more)
                        if attrs.pop("sink", 0):
                            v.update(pos=None, bias=None, sink=(f(r, N, dtype=dtype),))
                        if turn is not None:
                            attrs.update(do_rotary=1, rotary_interleaved=turn)
                        yield Case(f"GroupQueryAttention {dtype.__name__} packed {packed} rotary {turn} S {S} P {P} {more}",
                                   "GroupQueryAttention", v, n_out=3, num_heads=N, kv_num_heads=K, **attrs)


def ragged(r):
    """Steps behind prompts that were padded on the right: sequences of one batch end at different rows of the past."""
    N, K, H, B, P = 4, 2, 16, 3, 5

    def step(seq, turn=None, packed=False, dtype=np.float32, **more):
        v = {"q": f(r, B, 1, (N + 2 * K if packed else N) * H, dtype=dtype),
             "k": None if packed else f(r, B, 1, K * H, dtype=dtype), "v": None if packed else f(r, B, 1, K * H, dtype=dtype),
             "pk": f(r, B, K, P, H, dtype=dtype), "pv": f(r, B, K, P, H, dtype=dtype), "seq": np.array(seq, np.int32),
             "total": (np.array(P + 1, np.int32),),
             "cos": (f(r, 16, H // 2, dtype=dtype),) if turn is not None else None,
             "sin": (f(r, 16, H // 2, dtype=dtype),) if turn is not None else None}
        past = ["B", K, "P", H]
        attrs = dict(num_heads=N, kv_num_heads=K, n_out=3, dims=dict(
            {x: ["B", "S", v[x].shape[2]] for x in "qkv" if v[x] is not None}, seq=["B"], pk=past, pv=past))
        attrs.update(dict(do_rotary=1, rotary_interleaved=turn) if turn is not None else {})
        sink = more.pop("sink", None)
        if sink:
            v.update(pos=None, bias=None, sink=(f(r, N, dtype=dtype),))
        return v, dict(attrs, **more)

    for seq in ((5, 3, 0), (1, 5, 2), (3, 3, 3), (5, 5, 5)):
        for turn in (None, 0, 1):
            for dtype in (np.float32, np.float16):
                v, attrs = step(seq, turn, dtype=dtype)
                yield Case(f"GroupQueryAttention rows {seq} rotary {turn} {dtype.__name__}", "GroupQueryAttention", v, **attrs)
    for more in ({"packed": True}, {"local_window_size": 2}, {"softcap": 2.0, "scale": 0.3}, {"sink": 1}):
        v, attrs = step((5, 3, 1), 0, **more)
        yield Case(f"GroupQueryAttention rows {more}", "GroupQueryAttention", v, **attrs)
    for seq in ((5, 6, 5), (5, -1, 5)):
        v, attrs = step(seq)
        yield Case(f"rows {seq} refused", "GroupQueryAttention", v, refuse="seqlens_k of sequence 1", late=True, **attrs)
    v, attrs = step((5, 3, 5), 0)
    yield Case("rows without caches refused", "GroupQueryAttention", v, refuse="pass 'cache'", late=True,
               options=("--disable-pass", "cache"), **attrs)
    v, attrs = step((5, 5, 5), 0)
    yield Case("rows alike without caches", "GroupQueryAttention", v, options=("--disable-pass", "cache"), **attrs)


def matmul_nbits(r):
    N, bits_of = 24, ((4, 32), (4, 16), (8, 32), (2, 32), (4, 128))
    for bits, block in bits_of:
        for zeros in (None, "codes", "values") if bits < 8 else (None, "codes"):
            for K in (64, 72) if block == 32 else (128,):
                blocks = -(-K // block)
                v = {"a": f(r, 2, 5, K), "b": (r.integers(0, 256, (N, blocks, block * bits // 8)).astype(np.uint8),),
                     "s": (f(r, N, blocks) * 0.1,), "z": None, "g": None, "bias": None}
                if zeros == "codes":
                    v["z"] = (r.integers(0, 256, (N, -(-blocks * bits // 8))).astype(np.uint8),)
                if zeros == "values":
                    v["z"] = (f(r, N, blocks),)
                if K == 64:
                    v["bias"] = (f(r, N),)
                yield Case(f"MatMulNBits {bits} bits, block {block}, K {K}, zeros {zeros}", "MatMulNBits", v, K=K, N=N,
                           bits=bits, block_size=block, accuracy_level=1)
    v = {"a": f(r, 3, 64), "b": (r.integers(0, 256, (N, 2, 16)).astype(np.uint8),), "s": (f(r, N, 2),), "z": None,
         "g": (r.permutation(np.arange(64) // 32).astype(np.int32),)}
    yield Case("MatMulNBits g_idx", "MatMulNBits", v, K=64, N=N, bits=4, block_size=32)


def gather_blocks(r):
    V, K = 9, 64
    idx = r.integers(0, V, (2, 3)).astype(np.int64)
    for block in (16, 32):
        blocks = K // block
        for zeros in (False, True):
            for bits in (4, 8):
                v = {"d": (r.integers(0, 256, (V, K * bits // 8)).astype(np.uint8),), "i": idx,
                     "s": (f(r, V, blocks),), "z": (r.integers(0, 256, (V, -(-blocks * bits // 8))).astype(np.uint8),)
                     if zeros else None}
                yield Case(f"GatherBlockQuantized uint8 {bits} bits block {block} zeros {zeros}",
                           "GatherBlockQuantized", v, bits=bits, block_size=block, quantize_axis=1)
            for dtype in ("int4", "uint4"):
                import ml_dtypes
                t, low = getattr(ml_dtypes, dtype), -8 if dtype == "int4" else 0
                v = {"d": (r.integers(low, low + 16, (V, K)).astype(t),), "i": idx, "s": (f(r, V, blocks),),
                     "z": (r.integers(low, low + 16, (V, blocks)).astype(t),) if zeros else None}
                yield Case(f"GatherBlockQuantized {dtype} block {block} zeros {zeros}", "GatherBlockQuantized", v,
                           block_size=block, quantize_axis=1)


def quantized(r):
    u8 = lambda *shape: r.integers(0, 256, shape).astype(np.uint8)
    # 7 bits: without VNNI, ONNX Runtime's sums of u8 x s8 pairs saturate at 16 bits
    i8 = lambda *shape: r.integers(-64, 64, shape).astype(np.int8)
    sc, z, y = (np.float32(0.02),), (np.uint8(120),), (np.float32(0.05), )
    yz = (np.uint8(100),)
    one = {"x": u8(1, 4, 5, 5), "xs": sc, "xz": z, "ys": y, "yz": yz}
    two = {"a": u8(2, 3, 8), "as": sc, "az": z, "b": u8(3, 8), "bs": (np.float32(0.01),), "bz": (np.uint8(90),), "ys": y,
           "yz": yz}
    step = 1.01 / 100  # a tie may be rounded the other way: one step of about 100 or more
    for op in ("QLinearAdd", "QLinearMul"):
        yield Case(op, op, two, bound=step)
    yield Case("QLinearSigmoid", "QLinearSigmoid", dict(one, ys=(np.float32(1 / 256),), yz=(np.uint8(0),)), bound=step)
    yield Case("QLinearLeakyRelu", "QLinearLeakyRelu", one, bound=step, alpha=0.2)
    yield Case("QLinearSoftmax", "QLinearSoftmax", dict(one, xs=(np.float32(0.1),), ys=(np.float32(1 / 256),),
                                                        yz=(np.uint8(0),)), bound=step, axis=-1, opset=13)
    yield Case("QLinearGlobalAveragePool", "QLinearGlobalAveragePool", one, bound=step)
    yield Case("QLinearConcat", "QLinearConcat", {"ys": y, "yz": yz, "a": u8(2, 3), "as": sc, "az": z, "b": u8(2, 4),
                                                  "bs": (np.float32(0.03),), "bz": (np.uint8(7),)}, bound=step, axis=1)
    for b, bz in ((i8(16, 6), np.int8(3)), (u8(16, 6), np.uint8(130))):
        for per_column in (False, True):
            bs = f(r, 6) * 0.1 if per_column else np.float32(0.03)
            bz_ = np.full(6, bz) if per_column else bz
            for bias in (None, (f(r, 6),)):
                yield Case("DynamicQuantizeMatMul", "DynamicQuantizeMatMul",
                           {"a": f(r, 2, 5, 16), "b": (b,), "bs": (bs,), "bz": (bz_,), "bias": bias})
                yield Case("MatMulIntegerToFloat", "MatMulIntegerToFloat",
                           {"a": u8(2, 5, 16), "b": (b,), "as": sc, "bs": (bs,), "az": z, "bz": (bz_,), "bias": bias})
    c = r.integers(-500, 500, 6).astype(np.int32)
    gemm = {"a": u8(5, 16), "as": sc, "az": z, "b": (i8(16, 6),), "bs": (np.float32(0.03),), "bz": (np.int8(0),), "c": (c,)}
    yield Case("QGemm float", "QGemm", gemm)
    yield Case("QGemm", "QGemm", dict(gemm, ys=(np.float32(0.5),), yz=yz), bound=step)
    yield Case("QGemm transposed", "QGemm", dict(gemm, a=u8(16, 5), b=(i8(6, 16),)), transA=1, transB=1, alpha=0.5)
    yield Case("QuantizeLinear 16 bits", "QuantizeLinear", {"x": f(r, 3, 4), "s": (np.float32(0.001),),
                                                             "z": (np.uint16(30000),)}, bound=1.01 / 30000)
    yield Case("DequantizeLinear 16 bits", "DequantizeLinear", {"x": (r.integers(0, 65536, (3, 4)).astype(np.uint16)),
                                                                 "s": (np.float32(0.001),), "z": (np.uint16(30000),)})


def fused(r):
    x, w, b, z = f(r, 2, 4, 6, 6), f(r, 8, 4, 3, 3), f(r, 8), f(r, 2, 8, 6, 6)
    for kind, params in (("Relu", None), ("LeakyRelu", [0.3]), ("Clip", [0.0, 6.0]), ("HardSigmoid", [0.2, 0.5]),
                         ("Tanh", None), ("Sigmoid", None)):
        more = {"activation_params": params} if params else {}
        yield Case(f"FusedConv {kind}", "FusedConv", {"x": x, "w": (w,), "b": (b,)}, activation=kind, pads=[1] * 4, **more)
    yield Case("FusedConv sum", "FusedConv", {"x": x, "w": (w,), "b": (b,), "z": z}, activation="Relu", pads=[1] * 4)
    for kind in ("Relu", "LeakyRelu", "Tanh"):
        yield Case(f"FusedGemm {kind}", "FusedGemm", {"a": f(r, 5, 6), "b": (f(r, 7, 6),), "c": (f(r, 7),)},
                   activation=kind, transB=1, alpha=0.5, activation_alpha=0.1)
    for past in (0, 3):
        for mask in (None, np.array([4 + past, 3 + past], np.int32)):
            D = 24
            yield Case("QAttention", "QAttention",
                       {"x": r.integers(0, 256, (2, 4, 10)).astype(np.uint8),
                        "w": (r.integers(-64, 64, (10, 3 * D)).astype(np.int8),), "b": (f(r, 3 * D),),
                        "xs": (np.float32(0.02),), "ws": (np.float32(0.01),), "m": mask, "xz": (np.uint8(128),),
                        "wz": (np.int8(0),), "past": f(r, 2, 2, 3, past, 8) if past else None}, n_out=2, num_heads=3,
                       unidirectional=1)


def experts(r):
    E, H, I = 4, 32, 32
    for kind, fusion in (("relu", 0), ("gelu", 0), ("silu", 0), ("identity", 0), ("swiglu", 1)):
        for k in (1, 2):
            for normal in (0, 1):
                for bias in (False, True):
                    if bias and kind not in ("swiglu", "silu"):
                        continue
                    wide = I * (2 if kind == "swiglu" else 1)
                    v = {"x": f(r, 2, 3, H), "p": f(r, 6, E), "w1": (f(r, E, wide, H) / 4,),
                         "b1": (f(r, E, wide),) if bias else None, "w2": (f(r, E, H, I) / 4,),
                         "b2": (f(r, E, H),) if bias else None}
                    more = {"swiglu_fusion": fusion, "activation_alpha": 1.702, "activation_beta": 1.0,
                            "swiglu_limit": 2.0} if fusion else {}
                    yield Case(f"MoE {kind} k {k} normal {normal} bias {bias}", "MoE", v, k=k, activation_type=kind,
                               normalize_routing_weights=normal, **more)
    for bits in (4, 8):
        for block in (0, 32):
            scales = (E, 2 * I) if block == 0 else (E, 2 * I, H // block)
            scales2 = (E, H) if block == 0 else (E, H, I // block)
            v = {"x": f(r, 2, 3, H), "p": f(r, 6, E), "w1": (r.integers(0, 256, (E, 2 * I, H * bits // 8)).astype(np.uint8),),
                 "s1": (np.abs(f(r, *scales)) * (0.5 / 2 ** bits),), "b1": (f(r, E, 2 * I),),
                 "w2": (r.integers(0, 256, (E, H, I * bits // 8)).astype(np.uint8),),
                 "s2": (np.abs(f(r, *scales2)) * (0.5 / 2 ** bits),), "b2": (f(r, E, H),)}
            # blocks of 8 bits: ONNX Runtime rounds activations to 8 bits too
            yield Case(f"QMoE {bits} bits block {block}", "QMoE", v, bound=2e-2 if bits == 8 and block else None, k=2, activation_type="swiglu", swiglu_fusion=1,
                       activation_alpha=1.702, activation_beta=1.0, swiglu_limit=7.0, expert_weight_bits=bits,
                       normalize_routing_weights=1, **({"block_size": block} if block else {}))


def bad_values(r, bad):
    """A value that the operator's attribute may not have: a number out of its range, a word, a type, none at all."""
    x, q = f(r, 1, 2, 4), {"q": f(r, 1, 3, 64), "k": f(r, 1, 3, 32), "v": f(r, 1, 3, 32)}
    attention = {"x": x, "w": (f(r, 4, 12),)}
    heads = dict(num_heads=4, kv_num_heads=2)
    nbits = {"a": f(r, 3, 64), "b": (r.integers(0, 256, (24, 2, 16)).astype(np.uint8),), "s": (f(r, 24, 2),)}
    moe = {"x": f(r, 3, 8), "p": f(r, 3, 2), "w": f(r, 2, 8, 8), "b": None, "w2": f(r, 2, 8, 8)}
    eight = {"x": r.integers(0, 9, (1, 3, 2, 2)).astype(np.uint8), "s": (np.float32(0.1),), "z": (np.uint8(0),),
             "t": (np.float32(0.1),), "u": (np.uint8(0),)}
    for op, inputs, good, wrong, text in (
            ("Attention", attention, {}, {}, "'num_heads' is required and missing"),
            ("Attention", attention, {"num_heads": 2}, {"unidirectional": 2}, "'unidirectional' is 2, must be in 0 to 1"),
            ("Attention", attention, {}, {"num_heads": 2.0}, "'num_heads' is FLOAT, must be INT"),
            ("Attention", attention, {"num_heads": 2}, {"scale": 1}, "'scale' is INT, must be FLOAT"),
            ("MultiHeadAttention", q, {}, {"num_heads": 0}, "'num_heads' is 0, must be in 1"),
            ("GroupQueryAttention", q, heads, {"local_window_size": -2}, "'local_window_size' is -2"),
            ("GroupQueryAttention", q, heads, {"do_rotary": 7}, "'do_rotary' is 7"),
            ("GroupQueryAttention", q, heads, {"k_quant_type": "SOME"},
             "'k_quant_type' is 'SOME', must be one of NONE|PER_TENSOR|PER_CHANNEL"),
            ("MatMulNBits", nbits, dict(K=64, N=24, block_size=32), {"accuracy_level": 5}, "'accuracy_level' is 5"),
            ("MatMulNBits", nbits, dict(K=64, N=24), {}, "'block_size' is required"),
            ("FusedMatMul", {"a": f(r, 2, 3), "b": f(r, 3, 4)}, {}, {"transA": -1}, "'transA' is -1"),
            ("GroupNorm", {"x": f(r, 1, 4, 4, 2), "g": f(r, 2), "b": f(r, 2)}, {"groups": 1}, {"activation": 3},
             "'activation' is 3"),
            ("MoE", moe, {}, {"k": 0}, "'k' is 0"),
            ("MoE", moe, {}, {"activation_type": "tanh"}, "'activation_type' is 'tanh', must be one of relu|gelu"),
            ("QMoE", moe, {}, {"expert_weight_bits": 16}, "'expert_weight_bits' is 16, must be in 2 to 8"),
            ("RotaryEmbedding", {"x": x, "p": np.array([0]), "c": f(r, 4, 1), "s": f(r, 4, 1)}, {},
             {"interleaved": 2}, "'interleaved' is 2"),
            ("RelativePositionBias", {"t": (f(r, 32, 2),), "q": np.array([1]), "k": np.array([1])}, {}, {"max_distance": 0},
             "'max_distance' is 0"),
            ("SimplifiedLayerNormalization", {"x": x, "w": f(r, 4)}, {}, {"stash_type": 99}, "'stash_type' is 99"),
            ("QLinearSoftmax", eight, {}, {"axis": -1}, "'opset' is required"),
            ("QLinearGlobalAveragePool", eight, {}, {"channels_last": 5}, "'channels_last' is 5")):
        yield bad(f"{op} {text}", op, text, inputs, **good, **wrong)


def refusals(r):
    """What no file may get through: sizes that do not fit, operands that must be constants, attributes nobody knows."""
    def bad(name, op, text, inputs, **attrs):
        return Case(f"refused: {name}", op, inputs, refuse=text, **attrs)

    b, s = (r.integers(0, 256, (24, 2, 16)).astype(np.uint8),), (f(r, 24, 2),)
    nbits = {"a": f(r, 3, 64), "b": b, "s": s}
    good = dict(K=64, N=24, bits=4, block_size=32)
    yield bad("bits", "MatMulNBits", "3 bits in blocks of 4", nbits, **dict(good, bits=3, block_size=4))
    yield bad("bits 0", "MatMulNBits", "'bits' is 1099511627776, must be in 2 to 8", nbits, **dict(good, bits=1 << 40))
    yield bad("K", "MatMulNBits", "weights has not", nbits, **dict(good, K=128))
    yield bad("huge K", "MatMulNBits", "'K' is", nbits, **dict(good, K=1 << 62))
    yield bad("block 0", "MatMulNBits", "'block_size' is 0", nbits, **dict(good, block_size=0))
    yield bad("weights as input", "MatMulNBits", "weights is no constant", dict(nbits, b=b[0]), **good)
    yield bad("scales", "MatMulNBits", "scales", dict(nbits, s=(f(r, 24, 3),)), **good)
    yield bad("g_idx", "MatMulNBits", "group 7 of 2", dict(nbits, z=None, g=(np.full(64, 7, np.int32),)), **good)
    yield bad("uneven groups", "MatMulNBits", "64 elements", dict(nbits, z=None, g=(np.zeros(64, np.int32),)), **good)
    yield bad("prepacked", "MatMulNBits", "order of one device", nbits, weight_prepacked=1, **good)
    q = {"q": f(r, 1, 3, 64), "k": f(r, 1, 3, 32), "v": f(r, 1, 3, 32)}
    for heads, kv in ((0, 1), (4, 0), (4, 3), (-4, 2), (1 << 40, 1)):
        yield bad(f"heads {heads} {kv}", "GroupQueryAttention", "heads", q, num_heads=heads, kv_num_heads=kv)
    yield bad("past", "GroupQueryAttention", "come together", dict(q, pk=f(r, 1, 2, 4, 16)), num_heads=4, kv_num_heads=2)
    yield bad("rotary", "GroupQueryAttention", "cos_cache", q, num_heads=4, kv_num_heads=2, do_rotary=1)
    yield bad("attribute", "GroupQueryAttention", "'unheard_of'", q, num_heads=4, kv_num_heads=2, unheard_of=1)
    yield bad("attribute's type", "QuickGelu", "wrong type", {"x": f(r, 2)}, alpha=[1.0])
    yield bad("sizes", "Attention", "qkv_hidden_sizes", {"x": f(r, 1, 2, 4), "w": (f(r, 4, 12),)}, num_heads=2,
              qkv_hidden_sizes=[4, -4, 4])
    yield bad("mask", "Attention", "mask whose rank", {"x": f(r, 1, 2, 4), "w": (f(r, 4, 12),), "b": None,
                                                       "m": np.ones((1, 1, 8, 8), np.int32)}, num_heads=2)
    yield bad("experts", "MoE", "fc2's weights", {"x": f(r, 3, 8), "p": f(r, 3, 2), "w": f(r, 2, 8, 8), "b": None,
                                                  "w2": f(r, 2, 8, 8)})
    yield bad("activation", "FusedGemm", "'Nope'", {"a": f(r, 2, 3), "b": (f(r, 3, 4),)}, activation="Nope")
    yield from bad_values(r, bad)
    yield bad("buckets", "RelativePositionBias", "buckets", {"t": (f(r, 1, 2),), "q": np.array([1]), "k": np.array([1])},
              max_distance=8)


FAMILIES = (activations, matmuls, norms, rotary, attention, multi_head, gqa, ragged, matmul_nbits, gather_blocks, quantized, fused, experts, refusals)


def main():
    tenon, only = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    cases = [c for i, family in enumerate(FAMILIES) for c in family(np.random.default_rng(i)) if only in c.name]
    with tempfile.TemporaryDirectory() as t:
        folders = []
        for i in range(len(cases)):
            folders.append(pathlib.Path(t) / str(i))
            folders[-1].mkdir()
        with ThreadPoolExecutor(2) as pool:
            failed = [x for x in pool.map(lambda a: run(tenon, *a), zip(cases, folders)) if x]
    print("\n".join(failed))
    print(f"{len(cases)} cases, {len(failed)} failed")
    sys.exit(1 if failed or not cases else 0)


if __name__ == "__main__":
    main()
