# SPDX-License-Identifier: Apache-2.0
"""`tenon check --unsupported` reads no tensor over 1 KiB: neither external data nor what lies in the model's own file.

Pages of the files are put out of the page cache before the command and counted in it behind (mincore): a page that was read
is there. Needs a file system whose pages can be put out (not tmpfs); skipped where that does not work."""
import ctypes
import mmap
import os
import shutil
import sys
import unittest

import common

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

PAGE = mmap.PAGESIZE
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LIBC.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def evict(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def resident(path):
    """Bytes of the file in the page cache."""
    n, fd = os.path.getsize(path), os.open(path, os.O_RDONLY)
    at = LIBC.mmap(None, n, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    os.close(fd)
    pages = ctypes.create_string_buffer((n + PAGE - 1) // PAGE)
    assert LIBC.mincore(at, n, pages) == 0
    LIBC.munmap(at, n)
    return sum(p & 1 for p in pages.raw) * PAGE


def model(size):
    """Products, a convolution, tables and quantized weights; folding, merging and patterns would look at each. Two
    constants are equal: equal ones are merged."""
    rng = np.random.default_rng(1)
    w = rng.standard_normal((size, size)).astype(np.float32)
    codes = rng.integers(0, 255, (size, size), np.uint8)
    arrays = {"w": w, "w2": w, "codes": codes, "table": rng.standard_normal((4096, size)).astype(np.float32),
              "many": rng.standard_normal((4, size)).astype(np.float32), "conv": w[: size // 9 * 9, :16].reshape(-1, 16, 3, 3),
              "scale": np.float32(0.1), "zero": np.uint8(3), "pick": np.arange(3, dtype=np.int64)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("MatMul", ["a", "w2"], ["b"]),
             helper.make_node("DequantizeLinear", ["codes", "scale", "zero"], ["d"]), helper.make_node("MatMul", ["b", "d"], ["e"]),
             helper.make_node("Transpose", ["w"], ["t"]), helper.make_node("MatMul", ["e", "t"], ["f"]),
             helper.make_node("Gather", ["table", "pick"], ["g"]), helper.make_node("ReduceSum", ["many"], ["h"], keepdims=0),
             helper.make_node("Conv", ["image", "conv"], ["i"]), helper.make_node("Nobody", ["f"], ["j"], name="alone", domain="x.y")]
    outs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "ghij"]
    ins = [helper.make_tensor_value_info("x", 1, ["n", size]), helper.make_tensor_value_info("image", 1, ["n", 16, 8, 8])]
    g = helper.make_graph(nodes, "g", ins, outs, [numpy_helper.from_array(np.asarray(v), k) for k, v in arrays.items()])
    return helper.make_model(g, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("x.y", 1)], ir_version=10)


class Unread(common.Case):
    def setUp(self):
        super().setUp()
        self.folder = common.BUILD / "unread-test"  # beside the build: its file system keeps pages and lets them go
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.file = self.folder / "model.onnx"

    def tearDown(self):
        shutil.rmtree(self.folder)
        super().tearDown()

    def read(self, path, most):
        """Runs the command; what it read of the file, beyond what it may."""
        check = ("check", self.file, "--unsupported", "--profile", "host")
        self.fails(4, "alone", "Nobody", args=check)  # the program's own pages come in
        evict(path)
        if resident(path) > most:
            self.skipTest("pages of this file system cannot be put out")
        self.fails(4, "alone", "Nobody", args=check)
        got = resident(path)
        self.assertLessEqual(got, most, f"{got} bytes of {os.path.getsize(path)} were read")
        return path

    def test_external(self):
        onnx.save(model(1024), self.file, save_as_external_data=True, location="data.bin", size_threshold=1024)
        data = self.folder / "data.bin"
        self.assertGreater(os.path.getsize(data), 24 << 20)
        self.read(data, 0)
        with open(data, "rb") as f:  # what is read is seen
            f.seek(8 << 20)
            f.read(1)
        self.assertGreater(resident(data), 0)

    def test_small_external(self):
        """Tensors of a few KiB, too."""
        onnx.save(model(48), self.file, save_as_external_data=True, location="data.bin", size_threshold=1024)
        self.read(self.folder / "data.bin", 0)

    def test_embedded(self):
        """The headers before and behind the payload are read, with what the system reads ahead of itself around them."""
        w = np.zeros((4096, 6144), np.float32)
        nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Nobody", ["a"], ["j"], name="alone", domain="x.y")]
        g = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, ["n", 4096])],
                              [helper.make_tensor_value_info("j", 1, None)], [numpy_helper.from_array(w, "w")])
        onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("x.y", 1)], ir_version=10),
                  self.file)
        dev = os.stat(self.file).st_dev
        about = f"/sys/class/bdi/{os.major(dev)}:{os.minor(dev)}/read_ahead_kb"
        ahead = int(open(about).read()) << 10 if os.path.exists(about) else 4 << 20
        if 4 * ahead > w.nbytes // 2:
            self.skipTest(f"{ahead} bytes are read ahead")
        self.read(self.file, 4 * ahead)


if __name__ == "__main__":
    unittest.main()
