# SPDX-License-Identifier: Apache-2.0
"""check_dynamic.py SHAPE_RUN TENON PROFILE_DIR: graphs whose dims only the run knows, against onnxruntime, bit for bit:
NonZero and what follows from it, back to dims that are known, If on both sides (captures, nesting), Loop with a trip
count, a condition, neither turn, stacked results, Scan along any axis and backwards. Then what must fail, with its
message, what `tenon inspect` reports, and a length with a name of its own that is the sum of two others."""
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto as T
    from onnx import helper, numpy_helper
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

node, info, graph = helper.make_node, helper.make_tensor_value_info, helper.make_graph
RUN, TENON, PROFILES = sys.argv[1:4]
TOP = tempfile.mkdtemp(prefix="tenon-dynamic-")
RNG = np.random.default_rng(4)
X = info("x", T.FLOAT, ["n", "m"])
checked = 0


def const(name, value, dtype):
    return numpy_helper.from_array(np.array(value, dtype), name)


def model(nodes, ins, outs, inits=()):
    outs = [info(n, t, None) for n, t in outs]
    g = graph(nodes, "g", ins, outs, list(inits))
    return helper.make_model(g, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def prepare(name, m, feeds):
    folder = os.path.join(TOP, name)
    os.makedirs(folder)
    onnx.save(m, os.path.join(folder, "model.onnx"))
    for k, feed in enumerate(feeds):
        os.makedirs(os.path.join(folder, str(k)))
        for n, a in feed.items():
            np.save(os.path.join(folder, str(k), n + ".npy"), a)
    return folder


def run(folder):
    r = subprocess.run([RUN, PROFILES, folder], capture_output=True, text=True)
    if r.returncode != 0:
        sys.exit(f"FAIL {folder}: ended with {r.returncode}: {r.stderr[-2000:]}")
    return [line.split("\t") for line in r.stdout.splitlines()]


def same(name, m, feeds):
    global checked
    folder = prepare(name, m, feeds)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
    failed = [r for r in run(folder) if r[0] == "fail"]
    if failed:
        sys.exit(f"FAIL {name}: {failed[0]}")
    for k, feed in enumerate(feeds):
        for out, want in zip(m.graph.output, session.run(None, feed)):
            got = np.load(os.path.join(folder, str(k), "out", out.name + ".npy"))
            if got.shape != want.shape or got.dtype != want.dtype or got.tobytes() != want.tobytes():
                sys.exit(f"FAIL {name} run {k}: '{out.name}' is {got.shape} {got.reshape(-1)[:6]}, "
                         f"not {want.shape} {want.reshape(-1)[:6]}")
            checked += 1


def fails(name, m, feeds, *words):
    global checked
    failed = [r for r in run(prepare(name, m, feeds)) if r[0] == "fail"]
    if not failed or any(w not in failed[0][3] for w in words):
        sys.exit(f"FAIL {name}: wanted {words}, got {failed}")
    checked += 1


def xs(*shapes):
    return [{"x": (RNG.random(s) > 0.5).astype(np.float32) * RNG.integers(1, 9, s).astype(np.float32)} for s in shapes]


def non_zero():
    base = [node("NonZero", ["x"], ["nz"]), node("Transpose", ["nz"], ["t"]), node("GatherND", ["x", "t"], ["v"])]
    feeds = xs((5, 4), (1, 1), (7, 2), (5, 4)) + [{"x": np.zeros((3, 3), np.float32)}]
    same("nonzero", model(base + [node("Mul", ["v", "v"], ["y"])], [X], [("y", T.FLOAT), ("t", T.INT64)]), feeds)
    back = base + [node("Neg", ["v"], ["w"]), node("ScatterND", ["x", "t", "w"], ["s"]), node("Add", ["s", "x"], ["a"]),
                   node("MatMul", ["a", "W"], ["y"])]
    same("back", model(back, [X], [("y", T.FLOAT)], [const("W", np.arange(12).reshape(4, 3), np.float32)]),
         xs((5, 4), (2, 4)))
    sizes = base + [node("Shape", ["v"], ["k"]), node("Concat", ["k", "one"], ["kk"], axis=0),
                    node("Reshape", ["v", "kk"], ["r"]), node("Expand", ["r", "kk"], ["y"]), node("Size", ["v"], ["z"]),
                    node("Range", ["zero", "z", "step"], ["q"]), node("ConstantOfShape", ["k"], ["c"])]
    inits = [const("one", [1], np.int64), const("zero", 0, np.int64), const("step", 1, np.int64)]
    same("sizes", model(sizes, [X], [("y", T.FLOAT), ("q", T.INT64), ("c", T.FLOAT)], inits), feeds)
    two = [node("NonZero", ["x"], ["nz"]), node("Split", ["nz"], ["r", "c"], axis=0, num_outputs=2),
           node("Squeeze", ["r", "zero1"], ["r1"]), node("Gather", ["x", "r1"], ["rows"], axis=0),
           node("ReduceSum", ["rows", "zero1"], ["y"], keepdims=0), node("Cast", ["nz"], ["b"], to=T.BOOL),
           node("NonZero", ["b"], ["again"])]
    same("two", model(two, [X], [("y", T.FLOAT), ("again", T.INT64), ("c", T.INT64)], [const("zero1", [0], np.int64)]),
         xs((4, 6), (2, 2)))


def branches():
    c = info("c", T.BOOL, [])
    then = graph([node("Mul", ["x", "two"], ["a"])], "then", [], [info("a", T.FLOAT, None)])
    other = graph([node("ReduceSum", ["x"], ["b"], keepdims=1)], "else", [], [info("b", T.FLOAT, None)])
    nodes = [node("If", ["c"], ["r"], then_branch=then, else_branch=other), node("Add", ["r", "x"], ["y"])]
    feeds = [dict(f, c=np.array(k % 2 == 0)) for k, f in enumerate(xs((5, 4), (5, 4), (2, 3), (1, 3)))]
    same("if", model(nodes, [X, c], [("y", T.FLOAT)], [const("two", 2, np.float32)]), feeds)
    # Hands an outer value and a constant on; the value is used after the branch too.
    then = graph([node("Identity", ["u"], ["a"])], "then", [], [info("a", T.FLOAT, None)])
    inner = graph([node("Neg", ["u"], ["i1"])], "inner", [], [info("i1", T.FLOAT, None)])
    inner2 = graph([node("Add", ["u", "x"], ["i2"])], "inner2", [], [info("i2", T.FLOAT, None)])
    other = graph([node("ReduceMax", ["x"], ["mx"], keepdims=0), node("Greater", ["mx", "five"], ["g"]),
                   node("If", ["g"], ["b"], then_branch=inner, else_branch=inner2)], "else", [], [info("b", T.FLOAT, None)])
    nodes = [node("Abs", ["x"], ["u"]), node("If", ["c"], ["r"], then_branch=then, else_branch=other),
             node("Sub", ["r", "u"], ["y"])]
    same("nested", model(nodes, [X, c], [("y", T.FLOAT), ("r", T.FLOAT)], [const("five", 5, np.float32)]), feeds)
    nodes = [node("ReduceSum", ["x"], ["sum"], keepdims=0), node("Greater", ["sum", "limit"], ["c"]),
             node("If", ["c"], ["r"], then_branch=graph([node("NonZero", ["x"], ["a"])], "t", [], [info("a", T.INT64, None)]),
                  else_branch=graph([node("Shape", ["x"], ["b"])], "e", [], [info("b", T.INT64, None)]))]
    same("ranks", model(nodes, [X], [("r", T.INT64)], [const("limit", 20, np.float32)]), xs((2, 2), (6, 6)))


def loop_body(go, stacked=True):
    nodes = [node("Add", ["acc", "x"], ["acc2"]), node("ReduceSum", ["acc2"], ["sum"], keepdims=0)] + go
    outs = [info("go", T.BOOL, []), info("acc2", T.FLOAT, None)] + ([info("sum", T.FLOAT, [])] if stacked else [])
    return graph(nodes, "body", [info("i", T.INT64, []), info("c", T.BOOL, []), info("acc", T.FLOAT, None)], outs)


def loops():
    limit = const("limit", 100, np.float32)
    body = loop_body([node("Less", ["sum", "limit"], ["go"])])
    m_in, c_in = info("M", T.INT64, []), info("c0", T.BOOL, [])
    outs = [("fin", T.FLOAT), ("all", T.FLOAT)]
    feeds = [dict(f, M=np.array(k, np.int64), c0=np.array(True)) for k, f in zip((0, 1, 7, 2**62), xs((5, 4), (2, 2), (3, 3), (5, 4)))]
    same("loop", model([node("Loop", ["M", "c0", "x"], ["fin", "all"], body=body)], [X, m_in, c_in], outs, [limit]),
         feeds + [dict(feeds[0], M=np.array(9, np.int64), c0=np.array(False))])
    only = [{k: v for k, v in f.items() if k in "xM"} for f in feeds[:3]]
    same("trips", model([node("Loop", ["M", "", "x"], ["fin", "all"], body=body)], [X, m_in], outs, [limit]), only)
    cond = [{"x": f["x"] + 1, "c0": f["c0"]} for f in feeds[1:3]]
    same("while", model([node("Loop", ["", "c0", "x"], ["fin", "all"], body=body), node("Mul", ["fin", "x"], ["y"])],
                        [X, c_in], outs + [("y", T.FLOAT)], [limit]), cond)
    grow = graph([node("Concat", ["acc", "x"], ["acc2"], axis=0), node("Identity", ["c"], ["go"])], "grow",
                 [info("i", T.INT64, []), info("c", T.BOOL, []), info("acc", T.FLOAT, None)],
                 [info("go", T.BOOL, []), info("acc2", T.FLOAT, None)])
    same("grow", model([node("Loop", ["M", "", "x"], ["y"], body=grow)], [X, m_in], [("y", T.FLOAT)]), only)
    stuck = graph([node("Concat", ["acc", "x"], ["acc2"], axis=0), node("Identity", ["c"], ["go"]),
                   node("Identity", ["acc2"], ["s"])], "stuck",
                  [info("i", T.INT64, []), info("c", T.BOOL, []), info("acc", T.FLOAT, None)],
                  [info("go", T.BOOL, []), info("acc2", T.FLOAT, None), info("s", T.FLOAT, None)])
    fails("stuck", model([node("Loop", ["M", "", "x"], ["y", "z"], name="round", body=stuck)], [X, m_in], [("z", T.FLOAT)]),
          [dict(only[2], M=np.array(3, np.int64))], "round", "another shape")
    bad = loop_body([node("Less", ["sum", "limit"], ["l"]), node("Expand", ["l", "shape"], ["go"])])
    fails("cond", model([node("Loop", ["M", "", "x"], ["fin", "all"], name="round", body=bad)], [X, m_in], outs,
                        [limit, const("shape", [2], np.int64)]), only[1:2], "round", "condition")
    wrong = loop_body([node("Less", ["sum", "limit"], ["go0"]), node("MatMul", ["acc", "w"], ["mm"], name="inside"),
                       node("Identity", ["go0"], ["go"])])
    fails("inner", model([node("Loop", ["M", "", "x"], ["fin", "all"], name="round", body=wrong)], [X, m_in], outs,
                         [limit, const("w", np.ones((77, 2)), np.float32)]), only[1:2], "round", "inside")


def scans():
    z = info("z", T.FLOAT, ["n"])
    body = graph([node("Add", ["st", "xi"], ["st2"]), node("Mul", ["st2", "xi"], ["o"])], "body",
                 [info("st", T.FLOAT, None), info("xi", T.FLOAT, None)], [info("st2", T.FLOAT, None), info("o", T.FLOAT, None)])
    feeds = [dict(f, z=np.ones(f["x"].shape[0], np.float32)) for f in xs((5, 4), (2, 1), (3, 7))]
    for k, attrs in enumerate(({"scan_input_axes": [1]}, {"scan_input_axes": [-1], "scan_input_directions": [1]},
                               {"scan_input_axes": [1], "scan_output_axes": [1]},
                               {"scan_input_axes": [1], "scan_output_axes": [-1], "scan_output_directions": [1]})):
        same(f"scan{k}", model([node("Scan", ["z", "x"], ["f", "o2"], body=body, num_scan_inputs=1, **attrs)], [X, z],
                               [("f", T.FLOAT), ("o2", T.FLOAT)]), feeds)


    grows = graph([node("Concat", ["st", "xi"], ["st2"], axis=0), node("Identity", ["xi"], ["o"])], "body",
                  [info("st", T.FLOAT, None), info("xi", T.FLOAT, None)], [info("st2", T.FLOAT, None), info("o", T.FLOAT, None)])
    fails("grows", model([node("Scan", ["z", "x"], ["f", "o2"], body=grows, num_scan_inputs=1, name="around")], [X, z],
                         [("f", T.FLOAT), ("o2", T.FLOAT)]), feeds[:1], "state 0 has another shape after a turn")


def inspect(folder):
    r = subprocess.run([TENON, "inspect", os.path.join(folder, "model.onnx"), "--profile", "host", "--format", "json"],
                       capture_output=True, text=True, env=dict(os.environ, TENON_PROFILE_PATH=PROFILES))
    if r.returncode != 0:
        sys.exit(f"FAIL inspect {folder}: {r.stderr}")
    return json.loads(r.stdout)


def reports():
    global checked
    j = inspect(os.path.join(TOP, "nonzero"))
    if j["dynamic_nodes"] != 4 or any("NonZero" not in d["reason"] for d in j["dynamic"]):
        sys.exit(f"FAIL: {j['dynamic']}")
    j = inspect(os.path.join(TOP, "sizes"))
    if j["shape_ops_left"] != len(j["shape_ops"]) or not j["shape_ops"] or "NonZero" not in j["shape_ops"][0]["reason"]:
        sys.exit(f"FAIL: {j['shape_ops']}")
    if inspect(os.path.join(TOP, "loop"))["dynamic"][0]["op"] != "Loop":
        sys.exit("FAIL: the Loop is not reported")
    checked += 3


def total_model():
    heads, width, vocab = 2, 4, 16
    e = heads * width
    shapes = {"emb": (vocab, e), "wq": (e, e), "wk": (e, e), "wv": (e, e), "wo": (e, vocab)}
    inits = [const(k, RNG.standard_normal(s) * 0.3, np.float32) for k, s in shapes.items()]
    inits += [const("a12", [1, 2], np.int64), const("hs", [0, 0, heads, width], np.int64), const("flat", [0, 0, e], np.int64)]
    inits += [const("one", 1, np.float32), const("low", -1e9, np.float32), const("scale", 0.5, np.float32)]
    nodes = [node("Gather", ["emb", "input_ids"], ["h"])]
    for c in "qkv":
        nodes += [node("MatMul", ["h", "w" + c], [c + "0"]), node("Reshape", [c + "0", "hs"], [c + "1"]),
                  node("Transpose", [c + "1"], [c], perm=[0, 2, 1, 3])]
    nodes += [node("Concat", ["past_k", "k"], ["present_k"], axis=2), node("Concat", ["past_v", "v"], ["present_v"], axis=2),
              node("Transpose", ["present_k"], ["kt"], perm=[0, 1, 3, 2]), node("MatMul", ["q", "kt"], ["s0"]),
              node("Mul", ["s0", "scale"], ["s1"]), node("Unsqueeze", ["attention_mask", "a12"], ["m0"]),
              node("Cast", ["m0"], ["m1"], to=T.FLOAT), node("Sub", ["one", "m1"], ["m2"]), node("Mul", ["m2", "low"], ["m3"]),
              node("Add", ["s1", "m3"], ["s2"]), node("Softmax", ["s2"], ["p"], axis=-1),
              node("MatMul", ["p", "present_v"], ["o0"]), node("Transpose", ["o0"], ["o1"], perm=[0, 2, 1, 3]),
              node("Reshape", ["o1", "flat"], ["o2"]), node("MatMul", ["o2", "wo"], ["logits"])]
    past = ["batch", heads, "past_sequence_length", width]
    ins = [info("input_ids", T.INT64, ["batch", "sequence_length"]),
           info("attention_mask", T.INT64, ["batch", "total_sequence_length"]), info("past_k", T.FLOAT, past),
           info("past_v", T.FLOAT, past)]
    return model(nodes, ins, [("logits", T.FLOAT), ("present_k", T.FLOAT), ("present_v", T.FLOAT)], inits)


def totals():
    """The mask's length is proved to be past + sequence, so that the caches can stay in place."""
    global checked
    m = total_model()

    def feed(b, s, p, t):
        past = RNG.standard_normal((2, b, 2, p, 4)).astype(np.float32)
        return {"input_ids": RNG.integers(0, 16, (b, s)), "attention_mask": np.ones((b, t), np.int64), "past_k": past[0],
                "past_v": past[1]}

    feeds = [feed(1, 3, 0, 3), feed(2, 1, 4, 5), feed(1, 2, 7, 9)]
    folder = prepare("total", m, feeds)
    failed = [r for r in run(folder) if r[0] == "fail"]
    if failed:
        sys.exit(f"FAIL total: {failed[0]}")
    session = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
    for k, f in enumerate(feeds):
        want = session.run(None, f)[0]
        got = np.load(os.path.join(folder, str(k), "out", "logits.npy"))
        if got.shape != want.shape or np.abs(got - want).max() > 1e-5 * np.abs(want).max():
            sys.exit(f"FAIL total run {k}: logits differ by {np.abs(got - want).max()}")
    j = inspect(folder)
    mask = next(i for i in j["inputs"] if i["name"] == "attention_mask")
    if mask["dims"][1] != "sequence_length + past_sequence_length" or j["passes"]["cache"] < 1:
        sys.exit(f"FAIL total: {mask['dims']}, passes {j['passes']}")
    checked += 2
    fails("contradiction", m, [feed(1, 2, 3, 6)], "attention_mask", "axis 1", "past_sequence_length")


non_zero()
branches()
loops()
scans()
reports()
totals()
subprocess.run(["rm", "-r", TOP], check=True)
print(f"{checked} checks")
