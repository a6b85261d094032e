# SPDX-License-Identifier: Apache-2.0
"""random_shapes.py SHAPE_RUN PROFILE_DIR [--graphs N] [--seed N] [--long] [--keep FOLDER]

Random graphs of shape operators over symbolic dims, with tensors at the end whose dims come from them; some have sizes
that depend on data (NonZero, values of an input). Each runs in onnxruntime and in Tenon at several random dims: where
onnxruntime gives outputs Tenon must give the same, bit for bit, and every dim and element that inference claims must be
the true one. The seed is printed; TENON_TEST_SEED sets it."""
import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

OPSET = 18
SAMPLES = 3  # dims at which every operator of a graph must work while it is made
MAX_ELEMENTS = 4096
MAX_VALUE = 1 << 40
MAX_RANK = 8
ELEM = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "b": TensorProto.BOOL, "s": TensorProto.INT32}
KIND = {np.dtype("float32"): "f", np.dtype("int64"): "i", np.dtype("bool"): "b", np.dtype("int32"): "s"}


class Refused(Exception):
    pass


def trunc_div(a, b):
    if (b == 0).any():
        raise Refused
    q = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -q, q).astype(a.dtype)


def mod(a, b):
    if (b == 0).any():
        raise Refused
    return np.mod(a, b)


def reshape(x, shape):
    dims = [int(d) for d in shape]
    if any(d == 0 and i >= x.ndim for i, d in enumerate(dims)):
        raise Refused
    dims = [x.shape[i] if d == 0 else d for i, d in enumerate(dims)]
    if len(dims) > 6 or (x.size == 0 and -1 in dims) or any(d < -1 for d in dims):
        raise Refused
    return x.reshape(dims)


def expand(x, shape):
    if len(shape) > 6 or (shape < 0).any():
        raise Refused
    dims = np.broadcast_shapes(x.shape, tuple(int(d) for d in shape))
    if np.prod([float(d) for d in dims]) > MAX_ELEMENTS:
        raise Refused
    return np.broadcast_to(x, dims).copy()


def tile(x, times):
    if len(times) != x.ndim or (times < 0).any() or float(x.size) * np.prod(times.astype(float)) > MAX_ELEMENTS:
        raise Refused
    return np.tile(x, [int(t) for t in times])


def slices(x, starts, ends, axes, steps):
    index = [slice(None)] * x.ndim
    for s, e, a, t in zip(starts, ends, axes, steps):
        s, e, t, n = int(s), int(e), int(t), x.shape[int(a)]
        if t == 0:
            raise Refused
        s, e = (s + n if s < 0 else s), (e + n if e < 0 else e)
        if t > 0:
            s, e = min(max(s, 0), n), min(max(e, 0), n)
            index[int(a)] = slice(s, e, t)
        else:
            s, e = min(max(s, 0), n - 1), min(max(e, -1), n - 1)
            index[int(a)] = slice(s, None if e == -1 else e, t) if n else slice(0, 0)
    return x[tuple(index)].copy()


def pad(x, pads, value):
    n = x.ndim
    if (pads < 0).any() or float(np.prod([float(d + pads[i] + pads[i + n]) for i, d in enumerate(x.shape)])) > MAX_ELEMENTS:
        raise Refused
    return np.pad(x, [(int(pads[i]), int(pads[i + n])) for i in range(n)], constant_values=value)


def span(a, b, c):
    if int(c) == 0 or abs((int(b) - int(a)) / int(c)) > MAX_ELEMENTS:
        raise Refused
    return np.arange(int(a), int(b), int(c), dtype=np.int64)


def filled(shape, value):
    if len(shape) > 6 or (shape < 0).any() or np.prod(shape.astype(float)) > MAX_ELEMENTS:
        raise Refused
    return np.full([int(d) for d in shape], value)


class Value:
    def __init__(self, name, samples, const=False):
        self.name, self.samples, self.const = name, samples, const
        self.kind, self.rank = KIND[samples[0].dtype], samples[0].ndim

    def size(self):
        return max(s.size for s in self.samples)

    def fixed(self):
        return all(s.shape == self.samples[0].shape for s in self.samples)


class Graph:
    def __init__(self, rng):
        self.rng, self.nodes, self.inits, self.values, self.inputs = rng, [], [], [], []
        self.n = 0
        self.data = rng.random() < 0.3
        self.dims = [{s: rng.randint(1, 6) for s in "abc"} for _ in range(SAMPLES)]
        self.seed = rng.randrange(1 << 30)
        for name, dims in (("x", "ab"), ("y", "bc4"), ("z", "a")):
            self.add_input(name, dims, "f")
        if self.data:
            self.add_input("p", "3", "i")
            self.add_input("q", "ab", "b")

    def feed(self, name, dims, kind, sizes):
        r = np.random.default_rng(self.seed + len(name) * 1000 + ord(name[0]))
        shape = [int(d) if d.isdigit() else sizes[d] for d in dims]
        if kind == "b":
            return r.random(shape) < 0.5
        return r.integers(1, 4, shape).astype(np.int64 if kind == "i" else np.float32)

    def add_input(self, name, dims, kind):
        self.inputs.append((name, dims, kind))
        self.values.append(Value(name, [self.feed(name, dims, kind, s) for s in self.dims]))

    def fresh(self):
        self.n += 1
        return f"v{self.n}"

    def const(self, array):
        name = self.fresh()
        self.inits.append(numpy_helper.from_array(np.asarray(array), name))
        return Value(name, [np.asarray(array)] * SAMPLES, True)

    def ints(self, v):
        return self.const(np.array(v, np.int64))

    def pick(self, test):
        found = [v for v in self.values if test(v)]
        if not found:
            raise Refused
        return self.rng.choice(found[-12:] if self.rng.random() < 0.7 else found)

    def put(self, op, ins, fn, n_out=1, **attrs):
        out = []
        for k in range(SAMPLES):
            try:
                r = fn(*[v.samples[k] for v in ins if v is not None])
            except (ValueError, IndexError, TypeError, OverflowError):
                raise Refused
            r = r if n_out > 1 else [r]
            for t in r:
                big = t.dtype == np.int64 and t.size and np.abs(t).max() > MAX_VALUE
                if t.size > MAX_ELEMENTS or t.ndim > 6 or big:
                    raise Refused
            out.append(r)
        outs = [Value(self.fresh(), [np.asarray(out[k][i]) for k in range(SAMPLES)]) for i in range(n_out)]
        if any(s.ndim != v.rank or s.dtype != v.samples[0].dtype for v in outs for s in v.samples):
            raise Refused
        self.nodes.append(helper.make_node(op, [v.name if v else "" for v in ins], [v.name for v in outs], **attrs))
        self.values += outs
        return outs[0]

    # operands
    def vec(self):
        return self.pick(lambda v: v.kind == "i" and v.rank == 1 and v.size() <= 12)

    def scalar(self):
        return self.pick(lambda v: v.kind == "i" and v.rank == 0)

    def any_int(self):
        return self.pick(lambda v: v.kind == "i" and v.size() <= 64)

    def tensor(self):
        return self.pick(lambda v: v.kind == "f")

    # operators
    def op_shape(self):
        t, r = self.pick(lambda v: v.rank > 0), self.rng.random()
        if r < 0.6:
            return self.put("Shape", [t], lambda x: np.array(x.shape, np.int64))
        a, b = self.rng.randint(-t.rank, t.rank), self.rng.randint(-t.rank, t.rank)
        return self.put("Shape", [t], lambda x: np.array(x.shape[a:b], np.int64), start=a, end=b)

    def op_size(self):
        return self.put("Size", [self.tensor()], lambda x: np.array(x.size, np.int64))

    def op_gather(self):
        v = self.vec()
        n = min(s.size for s in v.samples)
        if not n:
            raise Refused
        i = self.rng.randint(-n, n - 1)
        index = self.ints(i if self.rng.random() < 0.5 else [i] * self.rng.randint(1, 2))
        return self.put("Gather", [v, index], lambda x, k: np.asarray(x[k]), axis=0)

    def op_slice(self):
        v = self.vec() if self.rng.random() < 0.6 else self.tensor()
        if not v.rank:
            raise Refused
        axis = self.rng.randrange(v.rank)
        r = self.rng
        start = self.ints([r.randint(-4, 4)]) if r.random() < 0.6 else self.one()
        step = r.choice([1, 1, 2, -1, -2])
        # ONNX says that the largest number means the end of a forward slice only; onnxruntime takes it for both ways.
        end = self.ints([r.choice([1, 2, 3, -1, 2**63 - 1 if step > 0 else -(2**63)])])
        end = end if r.random() < 0.6 else self.one()
        step = self.ints([step])
        return self.put("Slice", [v, start, end, self.ints([axis]), step], slices)

    def one(self):
        return self.pick(lambda v: v.kind == "i" and v.rank == 1 and all(s.size == 1 for s in v.samples))

    def op_concat(self):
        if self.rng.random() < 0.2:
            a = self.tensor()
            b = self.pick(lambda v: v.kind == "f" and v.rank == a.rank)
            if not a.rank:
                raise Refused
            axis = self.rng.randrange(a.rank)
            return self.put("Concat", [a, b], lambda *p: np.concatenate(p, axis), axis=axis)
        parts = [self.vec() if self.rng.random() < 0.7 else self.ints([self.rng.choice([1, 2, -1, 0])])
                 for _ in range(self.rng.randint(2, 3))]
        return self.put("Concat", parts, lambda *p: np.concatenate(p, 0), axis=0)

    def op_unsqueeze(self):
        v = self.any_int() if self.rng.random() < 0.8 else self.tensor()
        axis = self.rng.randint(0, v.rank)
        return self.put("Unsqueeze", [v, self.ints([axis])], lambda x, a: np.expand_dims(x, int(a[0])))

    def op_squeeze(self):
        v = self.pick(lambda v: any(all(s.shape[d] == 1 for s in v.samples) for d in range(v.rank)))
        axis = next(d for d in range(v.rank) if all(s.shape[d] == 1 for s in v.samples))
        return self.put("Squeeze", [v, self.ints([axis])], lambda x, a: np.squeeze(x, int(a[0])))

    def op_cast(self):
        v = self.pick(lambda v: v.kind in "ibs" and v.size() <= 64)
        to = self.rng.choice([k for k in "isbf" if k != v.kind])
        dtype = {"i": np.int64, "s": np.int32, "b": np.bool_, "f": np.float32}[to]
        if any(s.size and np.abs(s.astype(np.int64)).max() >= 1 << 24 for s in v.samples):
            raise Refused
        return self.put("Cast", [v], lambda x: x.astype(dtype), to=ELEM[to])

    def op_range(self):
        a = self.ints(self.rng.randint(-2, 2)) if self.rng.random() < 0.6 else self.scalar()
        c = self.ints(self.rng.choice([1, 1, 2, -1])) if self.rng.random() < 0.8 else self.scalar()
        return self.put("Range", [a, self.scalar(), c], span)

    def op_where(self):
        c = self.pick(lambda v: v.kind == "b" and v.size() <= 64)
        return self.put("Where", [c, self.any_int(), self.any_int()], np.where)

    def op_expand(self):
        v = self.any_int() if self.rng.random() < 0.4 else self.tensor()
        return self.put("Expand", [v, self.vec()], expand)

    def op_constant_of_shape(self):
        value = self.rng.choice([np.array([2], np.int64), np.array([0.5], np.float32), np.array([True])])
        return self.put("ConstantOfShape", [self.vec()], lambda s: filled(s, value[0]),
                        value=numpy_helper.from_array(value))

    def op_reshape(self):
        v = self.any_int() if self.rng.random() < 0.3 else self.tensor()
        r = self.rng.random()
        if r < 0.3:
            shape = self.vec()
        elif r < 0.6:
            dims = [self.rng.choice([0, -1, 1, 2]) for _ in range(self.rng.randint(1, 3))]
            shape = self.ints(dims)
        else:
            parts = [self.one() if self.rng.random() < 0.6 else self.ints([self.rng.choice([0, 1, -1])])
                     for _ in range(self.rng.randint(1, 3))]
            shape = self.put("Concat", parts, lambda *p: np.concatenate(p, 0), axis=0) if len(parts) > 1 else parts[0]
        return self.put("Reshape", [v, shape], reshape)

    def op_tile(self):
        v = self.vec() if self.rng.random() < 0.4 else self.tensor()
        times = self.vec() if self.rng.random() < 0.4 else self.ints([self.rng.randint(0, 3) for _ in range(v.rank)])
        return self.put("Tile", [v, times], tile)

    def op_arith(self):
        op, fn = self.rng.choice([("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", trunc_div),
                                  ("Mod", mod), ("Min", np.minimum), ("Max", np.maximum)])
        a = self.any_int()
        b = self.any_int() if self.rng.random() < 0.6 else self.ints(self.rng.choice([-2, -1, 1, 2, 3, 4]))
        pair = [a, b] if self.rng.random() < 0.8 else [b, a]
        return self.put(op, pair, fn)

    def op_compare(self):
        op, fn = self.rng.choice([("Equal", np.equal), ("Less", np.less), ("Greater", np.greater),
                                  ("LessOrEqual", np.less_equal), ("GreaterOrEqual", np.greater_equal)])
        b = self.any_int() if self.rng.random() < 0.6 else self.ints(self.rng.randint(-1, 5))
        return self.put(op, [self.any_int(), b], fn)

    def op_logic(self):
        a = self.pick(lambda v: v.kind == "b" and v.size() <= 64)
        if self.rng.random() < 0.4:
            return self.put("Not", [a], np.logical_not)
        b = self.pick(lambda v: v.kind == "b" and v.size() <= 64)
        op, fn = self.rng.choice([("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor)])
        return self.put(op, [a, b], fn)

    def op_unary(self):
        op, fn = self.rng.choice([("Neg", np.negative), ("Abs", np.abs), ("Identity", np.copy)])
        return self.put(op, [self.any_int()], fn)

    def op_reduce(self):
        op, fn = self.rng.choice([("ReduceProd", np.prod), ("ReduceSum", np.sum), ("ReduceMax", np.max),
                                  ("ReduceMin", np.min)])
        v, keep = self.any_int(), self.rng.randint(0, 1)
        if not v.rank or any(s.size == 0 for s in v.samples):
            raise Refused
        axis = self.rng.randrange(v.rank)
        return self.put(op, [v, self.ints([axis])],
                        lambda x, a: np.asarray(fn(x, axis=int(a[0]), keepdims=bool(keep)), x.dtype), keepdims=keep)

    def op_pad(self):
        v = self.vec() if self.rng.random() < 0.4 else self.tensor()
        pads = self.vec() if self.rng.random() < 0.3 else self.ints([self.rng.randint(0, 2) for _ in range(2 * v.rank)])
        if any(len(p) != 2 * v.rank for p in pads.samples):
            raise Refused
        value = self.const(np.array(1, np.int64 if v.kind == "i" else np.float32))
        return self.put("Pad", [v, pads, value], pad)

    def op_split(self):
        v = self.pick(lambda v: v.kind == "i" and v.rank == 1 and v.fixed() and v.size() > 1)
        n = v.size()
        k = self.rng.randint(1, n - 1)
        return self.put("Split", [v, self.ints([k, n - k])], lambda x, s: [x[:k].copy(), x[k:].copy()], 2, axis=0)

    def op_transpose(self):
        v = self.pick(lambda v: v.rank > 1)
        perm = list(range(v.rank))
        self.rng.shuffle(perm)
        return self.put("Transpose", [v], lambda x: np.ascontiguousarray(np.transpose(x, perm)), perm=perm)

    def op_tensor(self):
        a, b = self.tensor(), self.tensor()
        return self.put("Add", [a, b], np.add)

    def op_nonzero(self):
        if not self.data:
            raise Refused
        v = self.pick(lambda v: v.rank > 0 and v.size() <= 64)
        return self.put("NonZero", [v], lambda x: np.array(np.nonzero(x), np.int64).reshape(x.ndim, -1))

    def build(self, count):
        ops = [getattr(self, m) for m in sorted(dir(self)) if m.startswith("op_")]
        weights = [4 if m.__name__ in ("op_shape", "op_gather", "op_arith", "op_concat", "op_reshape") else 2 for m in ops]
        for _ in range(count * 12):
            if len(self.nodes) >= count:
                break
            n, i, v = len(self.nodes), len(self.inits), len(self.values)
            try:
                self.rng.choices(ops, weights)[0]()
            except Refused:
                del self.nodes[n:], self.inits[i:], self.values[v:]

    def model(self, outputs):
        ins = [helper.make_tensor_value_info(n, ELEM[k], [int(d) if d.isdigit() else d for d in dims])
               for n, dims, k in self.inputs]
        outs = [helper.make_tensor_value_info(v.name, ELEM[v.kind], [None] * v.rank) for v in outputs]
        g = helper.make_graph(self.nodes, "g", ins, outs, self.inits)
        return helper.make_model(g, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def make(folder, rng):
    g = Graph(rng)
    g.build(rng.randint(4, 28))
    made = [v for v in g.values if v.name not in {i[0] for i in g.inputs}]
    if not made:
        return None
    used = {n for node in g.nodes for n in node.input}
    outs = [v for v in made if v.name not in used or rng.random() < 0.15]
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(g.model(made).SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # its own inference refuses some of what its kernels take
        return None
    os.makedirs(folder)
    onnx.save(g.model(outs), os.path.join(folder, "model.onnx"))
    runs = []
    for sizes in g.dims + [{s: rng.randint(0 if rng.random() < 0.3 else 1, 9) for s in "abc"} for _ in range(3)]:
        feeds = {n: g.feed(n, dims, k, sizes) for n, dims, k in g.inputs}
        where = os.path.join(folder, str(len(runs)))
        os.makedirs(where)
        for n, a in feeds.items():
            np.save(os.path.join(where, n + ".npy"), a)
        try:
            real = dict(zip([v.name for v in made], session.run(None, feeds)))
        except Exception:
            real = None
        runs.append((sizes, real))
    return g, outs, runs


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def check(folder, made, rows):
    _, outs, runs = made
    problems, compared, claimed = [], 0, 0
    by_run, reshapes = {}, any(n.op_type == "Reshape" for n in made[0].nodes)
    for row in rows:
        if row[2] == "-":
            return [f"does not load: {row[3]}"], 0, 0
        by_run.setdefault(int(row[2]), []).append(row)
    for k, (sizes, real) in enumerate(runs):
        if real is None or any(t.ndim > MAX_RANK for t in real.values()):
            continue
        if any(t.dtype == np.int64 and t.size and (t.max() > MAX_VALUE or t.min() < -MAX_VALUE) for t in real.values()):
            continue  # what follows an overflow is nobody's business
        if 0 in sizes.values() and reshapes:  # see docs/symbolic-shapes.md: a 0 in a target stands for a size of 0
            continue
        mine = by_run.get(k, [])
        failed = next((r[3] for r in mine if r[0] == "fail"), None)
        if failed is not None:
            problems.append(f"{sizes}: {failed}")
            continue
        for v in outs:
            got = np.load(os.path.join(folder, str(k), "out", v.name + ".npy"))
            compared += 1
            if not same(got, real[v.name]):
                problems.append(f"{sizes}: '{v.name}' is {got.shape} {got.reshape(-1)[:8]}, "
                                f"not {real[v.name].shape} {real[v.name].reshape(-1)[:8]}")
        for row in mine:
            if row[0] not in ("dims", "elems") or row[3] not in real:
                continue
            want = real[row[3]].shape if row[0] == "dims" else real[row[3]].reshape(-1)
            said = [None if t == "?" else int(t) for t in row[4].split(",")] if row[4] else []
            claimed += sum(s is not None for s in said)
            if len(said) != len(want) or any(s is not None and s != int(w) for s, w in zip(said, want)):
                problems.append(f"{sizes}: {row[0]} of '{row[3]}' claimed {row[4]}, are {list(want)[:16]}")
    return problems, compared, claimed


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tool")
    p.add_argument("profiles")
    p.add_argument("--graphs", type=int, default=0)
    p.add_argument("--seed", type=int, default=None)
    p.add_argument("--long", action="store_true")
    p.add_argument("--keep", default=None)
    a = p.parse_args()
    seed = a.seed
    if seed is None:
        seed = int(os.environ.get("TENON_TEST_SEED", 139123958))
    count = a.graphs or (4000 if a.long else 120)
    print(f"seed {seed}, {count} graphs", flush=True)
    rng, top = random.Random(seed), tempfile.mkdtemp(prefix="tenon-shapes-")
    bad = compared = claimed = 0
    np.seterr(all="ignore")
    for first in range(0, count, 50):
        graphs = {}
        for i in range(first, min(first + 50, count)):
            folder = os.path.join(top, str(i))
            made = make(folder, random.Random(rng.randrange(1 << 60)))
            if made:
                graphs[folder] = made
        r = subprocess.run([a.tool, a.profiles] + list(graphs), capture_output=True, text=True)
        if r.returncode != 0:
            print(f"FAIL: the tool ended with {r.returncode}: {r.stderr[-2000:]}")
            sys.exit(1)
        rows = {}
        for line in r.stdout.splitlines():
            row = line.split("\t")
            rows.setdefault(row[1], []).append(row)
        for folder, made in graphs.items():
            problems, n, c = check(folder, made, rows.get(folder, []))
            compared, claimed = compared + n, claimed + c
            if problems:
                bad += 1
                print(f"FAIL graph {folder}: {len(problems)} problems, first: {problems[0]}")
                for node in made[0].nodes if bad <= 3 else []:
                    print("   ", node.op_type, list(node.input), "->", list(node.output))
                if a.keep:
                    shutil.copytree(folder, os.path.join(a.keep, os.path.basename(folder)), dirs_exist_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(top, ignore_errors=True)
    print(f"{count} graphs, {compared} outputs compared, {claimed} claims checked, {bad} graphs wrong")
    if not compared or not claimed:
        sys.exit("FAIL: nothing was compared")
    sys.exit(1 if bad else 0)


main()
