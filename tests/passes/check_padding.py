# SPDX-License-Identifier: Apache-2.0
"""Left padding: tokens that are no padding get the same numbers with all passes as without any.

    check_padding.py TENON [MODEL...]

A batch of 2 whose second row begins with padding, also within the queries, so that some queries see no key: what those give
is nobody's and not compared. The largest |difference| over all other rows of every output must be at most 1e-5 times its
largest |value|. Models: those of check_models.py with an attention_mask and a past. Exit 77 where there is none.
"""
import pathlib
import subprocess
import sys
import tempfile

import check_models as c

PADDED = 2  # of NEW queries; all of the past is padding, too


def has_padding(model):
    names = {i.name for i in c.onnx.load(model, load_external_data=False).graph.input}
    return "attention_mask" in names and any(n.startswith("past") for n in names)


def pad(folder, args):
    """The inputs that check_models made, with another mask and its positions."""
    for i in range(1, len(args), 2):
        name, file = args[i].split("=", 1)
        x = c.np.load(file)
        if name == "attention_mask":
            x[:] = 1
            x[1, : c.PAST + PADDED] = 0
        elif name == "position_ids":
            x[1] = [max(0, k - PADDED) for k in range(c.NEW)]
        c.np.save(file, x)
    return args


def real(x):
    """x with the sequence as its axis 1, its rows of padding gone."""
    x = c.np.moveaxis(x, 2, 1) if x.ndim == 4 else x
    cut = PADDED if x.shape[1] == c.NEW else c.PAST + PADDED
    return c.np.concatenate([x[0].reshape(-1), x[1, cut:].reshape(-1)])


def check(tenon, model, names, tmp):
    inputs = pad(tmp, c.make_inputs(model, tmp))
    want = c.infer(tenon, model, inputs, names, tmp / "none")
    got = c.infer(tenon, model, inputs, [], tmp / "all")
    worst = c.difference({k: real(v) for k, v in got.items()}, {k: real(v) for k, v in want.items()})
    print(f"{model.parent.name}/{model.name}: {len(want)} outputs, worst {worst:.3g} of the bound", flush=True)
    return int(worst > 1)


def main():
    tenon = sys.argv[1]
    todo = [m for m in ([pathlib.Path(m) for m in sys.argv[2:]] or c.models()) if has_padding(m)]
    if not todo:
        print("skipped: no model here")
        return 77
    info = subprocess.run([tenon, "inspect", str(todo[0]), "--format", "json", "--profile", "host"], capture_output=True,
                          text=True, check=True)
    names = list(c.json.loads(info.stdout)["passes"])
    failed = 0
    for model in todo:
        with tempfile.TemporaryDirectory() as tmp:
            failed += check(tenon, model, names, pathlib.Path(tmp))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
