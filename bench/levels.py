#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""levels.py [MODEL [FORMAT...]]: trains the tables of plugins/common/formats/lev_tables.h on a folder's weights and prints them.

Weights of every product are cut into blocks along K, each divided by its root mean square; k-means over 250 blocks of each
matrix finds the entries, an index of which is a weight's own bits and, of windows, its neighbour's. Needs numpy and onnx."""
import sys

import numpy as np
import onnx
from onnx import numpy_helper


def blocks_of(folder, block, per_matrix=250, seed=0):
    """[n, block]: normalised blocks, drawn from every constant matrix that a product reads."""
    model = onnx.load(folder + "/model.onnx")
    values = {i.name: i for i in model.graph.initializer}
    rng, parts = np.random.default_rng(seed), []
    for node in model.graph.node:
        if node.op_type not in ("MatMul", "Gemm") or node.input[1] not in values:
            continue
        w = numpy_helper.to_array(values[node.input[1]]).astype(np.float64)
        if w.ndim != 2:
            continue
        rows = w.T[:, : w.shape[0] // block * block].reshape(-1, block)
        rows = rows[rng.permutation(len(rows))[:per_matrix]]
        size = np.sqrt((rows**2).mean(1, keepdims=True))
        parts.append(rows[size[:, 0] > 0] / size[size[:, 0] > 0])
    return np.concatenate(parts)


def window(bits, window_bits, vec):
    """[codes, vec]: entries that a code of vec weights reads. An entry's upper bits are the neighbour's top ones."""
    codes, mask, more = np.arange(2 ** (bits * vec)), 2**bits - 1, window_bits - bits
    own = [codes >> (bits * j) & mask for j in range(vec)]
    return np.stack([own[j] | own[(j + 1) % vec] >> (bits - more) << bits for j in range(vec)], 1)


def shared(vec):
    """As `window`, of codes of two bits that a quad shares and a bit for each weight."""
    codes = np.arange(2 ** (2 + vec))
    own = [codes >> (2 + j) & 1 for j in range(vec)]
    return np.stack([codes & 3 | own[j] << 2 | own[(j + 1) % vec] << 3 for j in range(vec)], 1)


def of_starts(x, index, entries, starts):
    """The best of tables that begin as quantiles in a random order: what quads share has no order of its own."""
    middle = np.quantile(x, (np.arange(entries) + 0.5) / entries)
    return min((train(x, index, entries, 0, start=np.random.default_rng(i).permutation(middle)) for i in range(starts)), key=lambda t: t[1])


def begin(x, entries, bits):
    """Entries to train from. The bits that a neighbour reads begin as the lowest of a weight's place among its levels: one step up
    or down turns them."""
    order = np.sort(x.reshape(-1))
    start = order[((np.arange(entries) + 0.5) / entries * len(order)).astype(int)]
    own, others = 2**bits, entries // 2**bits
    code, more = np.arange(own), others.bit_length() - 1
    place = (code % (own // others) if own > others else 0) << more | code >> (own.bit_length() - 1 - more)
    return start.reshape(own, others)[place].T.reshape(-1).copy()


def train(x, index, entries, bits, turns=40, start=None):
    """Entries that leave least squared error of x [n, vec], and that error over the sum of squares."""
    table = start
    if table is None:
        table = begin(x, entries, bits)
    for _ in range(turns):
        best = np.empty(len(x), np.int64)
        error = 0.0
        for a in range(0, len(x), 20000):
            part = x[a : a + 20000]
            d = np.zeros((len(part), len(index)))
            for j in range(x.shape[1]):
                d += (part[:, j, None] - table[None, index[:, j]]) ** 2
            best[a : a + 20000] = d.argmin(1)
            error += d.min(1).sum()
        flat = index[best].reshape(-1)
        count = np.bincount(flat, minlength=entries)
        total = np.bincount(flat, weights=x.reshape(-1), minlength=entries)
        table = np.where(count > 0, total / np.maximum(count, 1), table)
    return table, error / (x**2).sum()


def print_tables(name, table, index):
    """As lev_tables.h has them: entries, and of windows also what each code gives."""
    print(f"#define TNI_{name.upper()}_TABLE {{{', '.join(map(str, table))}}}")
    numbers = [str(v) for v in table[index].reshape(-1)]
    lines = [", ".join(numbers[i : i + 24]) for i in range(0, len(numbers), 24)]
    print(f"static const float {name}_grid[] = {{\n    " + ",\n    ".join(lines) + "};")


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "models/demo"
    only = sys.argv[2:]
    for name, block, bits, window_bits, vec, most in (
        ("lev4", 32, 4, 4, 1, 1 << 30),
        ("lev4s", 16, 4, 4, 1, 1 << 30),
        ("lev3", 32, 3, 4, 2, 120000),
        ("lev2", 32, 2, 4, 4, 50000),
        ("lev1", 32, 1, 4, 4, 50000),
    ):
        if only and name not in only:
            continue
        x = blocks_of(folder, block).reshape(-1, vec)
        part = x[:: max(1, len(x) // most)]
        index = shared(vec) if bits == 1 else window(bits, window_bits, vec)
        table, error = of_starts(part, index, 16, 24) if bits == 1 else train(part, index, 16, bits)
        table = np.sort(table) if vec == 1 else table
        whole = np.rint(table * 127 / np.abs(table).max()).astype(int)
        print(f"{name}: {-10 * np.log10(error):.2f} dB, {whole.tolist()}", file=sys.stderr, flush=True)
        print_tables(name, whole, index)
    steps = [float(np.float32(2.0 ** (-i / 5))).hex() + "f" for i in range(16)]
    print("#define TNI_LEV_STEP_TABLE {" + ", ".join(steps) + "}")


if __name__ == "__main__":
    main()
