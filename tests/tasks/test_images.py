# SPDX-License-Identifier: Apache-2.0
"""tenon classify: files, preprocessing and labels against Pillow and NumPy."""
import json
import os
import struct
import zlib

import numpy as np
from onnx import TensorProto
from PIL import Image, ImageOps

import common
from common import check, ends, folder, image_model, softmax, tenon, value, write_json

rng = np.random.default_rng(11)
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def picture(w, h):
    """Smooth areas, edges and noise."""
    y, x = np.mgrid[0:h, 0:w]
    base = np.stack([128 + 100 * np.sin(x / 5), 255 * (x > y), rng.integers(0, 256, (h, w))], -1)
    return Image.fromarray(base.clip(0, 255).astype(np.uint8))


def resized(im, new, how):
    """Rows first: Pillow's versions do not agree in which order to do the two, which matters to what is rounded between."""
    return im.resize(new, how) if how == 0 else im.resize((new[0], im.size[1]), how).resize(new, how)


def expect(image, config, channels=3):
    """What the image processors of the field do, step by step, with Pillow's own resizing."""
    im = ImageOps.exif_transpose(image).convert("RGB" if channels == 3 else "L")
    size = config.get("size")
    if config.get("do_resize", size is not None):
        kind = config.get("image_processor_type", "")
        by_edge = kind.startswith("Levit") or (config.get("do_center_crop") and not kind.startswith("DeiT"))
        edge = size.get("shortest_edge") if isinstance(size, dict) else size if by_edge else None
        if isinstance(size, int) and edge is None:
            size = {"width": size, "height": size}
        if edge and "crop_pct" in config:
            edge = int(edge / config["crop_pct"])
        if edge and kind.startswith("Levit"):
            edge = int(256 / 224 * edge)
        if edge:
            w, h = im.size
            small, large = min(w, h), max(w, h)
            new = (edge, int(edge * large / small)) if w <= h else (int(edge * large / small), edge)
        else:
            new = (size["width"], size["height"])
        im = resized(im, new, config.get("resample", 2))
    x = np.asarray(im).reshape(im.size[1], im.size[0], channels)
    crop = config.get("crop_size") if config.get("do_center_crop") else config["size"]["shortest_edge"] if "crop_pct" in config else None
    if crop:
        ch, cw = (crop, crop) if isinstance(crop, int) else (crop["height"], crop["width"])
        h, w = x.shape[:2]
        big = np.zeros((max(h, ch), max(w, cw), channels), np.uint8)
        top, left = -(-(big.shape[0] - h) // 2), -(-(big.shape[1] - w) // 2)
        big[top:top + h, left:left + w] = x
        top, left = (big.shape[0] - ch) // 2 if h >= ch else 0, (big.shape[1] - cw) // 2 if w >= cw else 0
        x = big[top:top + ch, left:left + cw]
    v = x.astype(np.float32)
    if config.get("do_rescale", True):
        v = (x * config.get("rescale_factor", 1 / 255)).astype(np.float32)
    if config.get("rescale_offset"):
        v = v - np.float32(1)
    if config.get("do_flip_channel_order"):
        v = v[..., ::-1]
    if "image_mean" in config:
        v = (v - np.float32(config["image_mean"])) / np.float32(config["image_std"])
    if config.get("include_top", config.get("image_processor_type", "").startswith("EfficientNet")):
        v = v / np.float32(config["image_std"])
    return v.transpose(2, 0, 1)[None].astype(np.float32)


def pixels(model, image, *args):
    out = os.path.join(folder("px"), "x.npy")
    tenon("classify", model, "--image", image, "--save-pixels", out, *args)
    return np.load(out)


def same(got, want, what):
    check(got.shape == want.shape, f"{what}: {got.shape}, not {want.shape}")
    check(np.array_equal(got, want), f"{what}: {np.abs(got - want).max()} off at most, {np.mean(got != want):.4f} of them")


def resizing():
    d = folder("any")
    image_model(d + "/model.onnx", ["batch", 3, "height", "width"])
    path = d + "/x.png"
    configs = [{"size": {"height": 24, "width": 31}, "resample": f, "image_mean": MEAN, "image_std": STD} for f in range(6)]
    configs += [{"size": {"shortest_edge": 30}, "do_center_crop": True, "crop_size": {"height": 28, "width": 24}, "resample": 3},
                {"size": 30, "do_center_crop": True, "crop_size": 50},
                {"size": 17, "do_rescale": False}, {"size": 40, "do_flip_channel_order": True, "rescale_factor": 0.5},
                {"size": {"shortest_edge": 20}, "crop_pct": 0.875, "resample": 3, "image_mean": 0.5, "image_std": 0.25},
                {"image_processor_type": "EfficientNetImageProcessor", "size": 20, "do_center_crop": False, "image_mean": MEAN, "image_std": STD},
                {"image_processor_type": "EfficientNetImageProcessor", "size": 20, "rescale_factor": 1 / 127.5, "rescale_offset": True, "include_top": False},
                {"size": 20, "include_top": True, "image_std": STD, "do_normalize": False},
                {"image_processor_type": "LevitImageProcessor", "size": {"shortest_edge": 28}, "do_center_crop": True, "crop_size": 28},
                {"image_processor_type": "LevitFeatureExtractor", "size": 28},
                {"image_processor_type": "DeiTImageProcessor", "size": 32, "do_center_crop": True, "crop_size": {"height": 28, "width": 28}, "resample": 3},
                {"do_resize": False}]
    for w, h in ((64, 48), (23, 57), (9, 200), (31, 24), (1, 1)):
        im = picture(w, h)
        im.save(path)
        for c in configs:
            if max(w, h) > 100 and "crop_pct" in c:
                continue
            c = {k: ([v] * 3 if k in ("image_mean", "image_std") and not isinstance(v, list) else v) for k, v in c.items()}
            p = write_json(d + "/p.json", c)
            same(pixels(d, path, "--preprocessor", p), expect(im, c), f"{w}x{h} {c}")


def orientation_of(im, path, n):
    exif = im.getexif()
    exif[0x0112] = n
    im.save(path, exif=exif, quality=95)


def png16(path, v):
    """A 16-bit gray PNG by hand: Pillow would not write one as such."""
    rows = b"".join(b"\0" + r.astype(">u2").tobytes() for r in v)

    def chunk(k, data):
        return struct.pack(">I", len(data)) + k + data + struct.pack(">I", zlib.crc32(k + data))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", v.shape[1], v.shape[0], 16, 0, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def files():
    d = folder("any")
    c = write_json(d + "/p.json", {"do_resize": False, "do_rescale": False})
    im = picture(37, 22)
    kinds = {"rgb.png": im, "gray.png": im.convert("L"), "bits.png": im.convert("1"), "palette.png": im.convert("P"),
             "alpha.png": im.convert("RGBA"), "grayalpha.png": im.convert("LA"), "rgb.jpg": im, "gray.jpg": im.convert("L"),
             "progressive.jpg": im, "fine.jpg": im}
    for name, x in kinds.items():
        more = {"progressive": True} if name.startswith("prog") else {"subsampling": 0, "quality": 100} if name == "fine.jpg" else {}
        x.save(d + "/" + name, **more)
        with Image.open(d + "/" + name) as back:
            same(pixels(d, d + "/" + name, "--preprocessor", c), expect(back, {"do_resize": False, "do_rescale": False}), name)
    for n in range(1, 9):
        orientation_of(im, d + "/o.jpg", n)
        with Image.open(d + "/o.jpg") as back:
            same(pixels(d, d + "/o.jpg", "--preprocessor", c), expect(back, {"do_resize": False, "do_rescale": False}), f"orientation {n}")
    v = rng.integers(0, 65536, (5, 6))
    png16(d + "/deep.png", v)
    got = pixels(d, d + "/deep.png", "--preprocessor", c)[0, 0]
    check(np.array_equal(got, np.floor(v * 255 / 65535 + 0.5)), "16 bits")


def models():
    """What a model takes: sizes it has fixed, channels last, one channel, halves, bytes."""
    im = picture(50, 40)
    path = folder("shapes") + "/x.png"
    im.save(path)
    gray = folder("shapes") + "/gray.png"
    im.convert("L").save(gray)
    plain = {"size": {"height": 16, "width": 20}}
    for name, dims, more in (("first", [1, 3, 16, 20], {}), ("last", ["n", 16, 20, 3], {"last": True})):
        d = folder(name)
        w = image_model(d + "/model.onnx", dims, **more)
        want = expect(im, plain)
        same(pixels(d, path), want if name == "first" else want.transpose(0, 2, 3, 1), name)
        j = json.loads(tenon("classify", d, "--image", path, "--format", "json", "--top", 7))
        out = j["rows"]
        check(j["schema"] == 1, f"{name}: {j}")
        p = softmax(want[0].mean((1, 2)) @ w)
        check([int(r["class"]) for r in out] == list(np.argsort(-p)), f"{name}: classes {out}")
        check(max(abs(float(r["probability"]) - p[int(r["class"])]) for r in out) < 1e-5, f"{name}: probabilities")
        j = json.loads(tenon("classify", d, "--image", path, "--image", d + "/none.png", "--format", "json", code=3)[0])
        check(len(j["rows"]) == 5 and "none.png" in j["error"]["where"], f"{name}: rows and what failed, {j}")
    d = folder("one")
    image_model(d + "/model.onnx", [1, 1, 16, 20], channels=1)
    same(pixels(d, gray), expect(im, plain, 1), "one channel")
    out, err = tenon("classify", d, "--image", path, code=3)
    check("3 channels" in err and "takes 1" in err, err)
    d = folder("half")
    image_model(d + "/model.onnx", [1, 3, 16, 20], dtype=TensorProto.FLOAT16)
    check(len(tenon("classify", d, "--image", path).splitlines()) == 6, "halves: header and five classes")
    d = folder("bytes")
    image_model(d + "/model.onnx", [1, 3, 16, 20], dtype=TensorProto.UINT8)
    same(pixels(d, path), expect(im, dict(plain, do_rescale=False)), "bytes")
    write_json(d + "/preprocessor_config.json", plain)
    check("fractions" in tenon("classify", d, "--image", path, code=3)[1], "bytes and fractions")


def labels():
    d = folder("labels")
    image_model(d + "/model.onnx", [1, 3, 8, 8])
    picture(8, 8).save(d + "/x.png")
    write_json(d + "/config.json", {"id2label": {str(i): f"name {i}" for i in range(6)}})
    rows = json.loads(tenon("classify", d, "--image", d + "/x.png", "--format", "json", "--top", 99))["rows"]
    check({r["class"]: r["label"] for r in rows} == {str(i): f"name {i}" if i < 6 else "" for i in range(7)}, rows)
    check([float(r["probability"]) for r in rows] == sorted((float(r["probability"]) for r in rows), reverse=True), "best first")
    rows = json.loads(tenon("classify", d, "--image", d + "/x.png", "--image", d + "/x.png", "--format", "json", "--labels", "a, b,c"))["rows"]
    check(len(rows) == 10 and all(r["label"] == {"0": "a", "1": "b", "2": "c"}.get(r["class"], "") for r in rows), rows)
    write_json(d + "/config.json", {"id2label": {"x": "y"}})
    check("id2label" in tenon("classify", d, "--image", d + "/x.png", code=3)[1], "id2label")


def bad():
    d = folder("bad")
    image_model(d + "/model.onnx", [1, 3, 16, 20])
    im = picture(50, 40)
    im.save(d + "/x.png")
    im.save(d + "/x.jpg")
    for name in ("x.png", "x.jpg"):
        data = open(f"{d}/{name}", "rb").read()
        for part in (len(data) - 2 if name == "x.jpg" else len(data) - 20, len(data) // 2, 30, 3, 0):
            with open(f"{d}/cut", "wb") as f:
                f.write(data[:part])
            check(f"{d}/cut" in tenon("classify", d, "--image", d + "/cut", code=3)[1], f"{name} of {part} bytes")
        for k in range(12):  # damaged files may still be pictures; they may not be crashes
            hurt = bytearray(data)
            for at in rng.integers(2, len(data), 6):
                hurt[at] = rng.integers(256)
            with open(f"{d}/hurt", "wb") as f:
                f.write(hurt)
            check(ends("classify", d, "--image", d + "/hurt") in (0, 3), f"damaged {name}, number {k}")
    tenon("classify", d, "--image", d + "/missing.png", code=3)
    tenon("classify", d, "--image", d + "/model.onnx", code=3)
    tenon("classify", d, code=2)
    tenon("classify", d, "--image", d + "/x.png", "--top", 0, code=2)
    for config, word in (({"size": {"width": 3}}, "size"), ({"size": {"height": 0, "width": 3}}, "size.height"),
                         ({"size": 4, "image_mean": [1, 2], "image_std": 1}, "image_mean"), ({"size": 4, "image_mean": 1}, "image_std"),
                         ({"size": 4, "image_mean": 1, "image_std": 0}, "image_std"), ({"size": 4, "do_pad": True}, "do_pad"),
                         ({"size": 4, "do_color_quantize": True}, "do_color_quantize"),
                         ({"size": 4, "do_center_crop": True, "crop_size": 4, "image_processor_type": "PerceiverImageProcessor"}, "do_center_crop"),
                         ({"size": 4, "resample": 9}, "resample"), ([], "object"), ({"size": {"shortest_edge": 99999}}, "shortest_edge")):
        code = 4 if word.startswith("do_") or config == {"size": {"width": 3}} else 3
        check(word in tenon("classify", d, "--image", d + "/x.png", "--preprocessor", write_json(d + "/p.json", config), code=code)[1], config)
    check("16 x 20" in tenon("classify", d, "--image", d + "/x.png", "--preprocessor", write_json(d + "/p.json", {"size": 4}), code=3)[1],
          "another size than the model's")
    five = folder("five")
    image_model(five + "/model.onnx", [1, 5, 16, 20], channels=5)
    check("5 channels" in tenon("classify", five, "--image", d + "/x.png", code=3)[1], "five channels")
    loose = folder("loose")
    image_model(loose + "/model.onnx", ["n", 3, "h", "w"])
    check("preprocessor_config.json" in tenon("classify", loose, "--image", d + "/x.png", code=3)[1], "no size anywhere")
    tenon("embed", d, "-p", "x", code=3)


for part in (resizing, files, models, labels, bad):
    part()
    print(f"{part.__name__}: {common.checks} checks so far")
