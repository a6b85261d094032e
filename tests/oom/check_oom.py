#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets allocations, mappings, threads and opens of commands fail, one at a time, and judges how each run ends.

  check_oom.py BUILD [--points N | --all | --shard K/N] [--seed N] [--only NAME]... [--log FILE]

--shard K/N: the K-th (0 to N - 1) of N pieces of all points; the first also does what is no point. All N of a seed are --all.

Right is: the output of the run without a failure, or exit code 5 and a message that speaks of memory. A crash, a hang,
another exit code, other output, or a block that nobody frees is a mistake. README.md says how.
"""
import argparse, collections, datetime, json, os, re, resource, shutil, struct, subprocess, sys, tempfile, zlib

MEMORY = re.compile("memory|cannot allocate|Too many open files|NO_MEMORY")
# Blocks that others lose when they find no memory (libltdl 2.4.7: lt_dlinit, lt_dlloader_add, lt_dlexit).
OTHERS_LEAK = re.compile(r"^\S+ (?:\S*oom-inject\S* )?libltdl")
# What is measured, not computed.
MEASURED = re.compile(r"^.*(?:base_bytes|anonymous_bytes|file_bytes|packing_bytes|loading_bytes|total_bytes|rss"
                      r"|tokens/s|\bms\b| s\b|\.tnpack$).*$", re.M)
RERUNS = 16  # points a command whose threads are real


LETTERS = list("abcdefghijklmnopqrstuvwxyz")
END = "</w>" * 80  # longer than what a buffer begins with
# Parts that the demo's has not: ends of words, several normalizers, bytes of what is no token, decoders of words.
TOKENIZERS = [
    {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]},
     "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "[a-z]+|[^ a-z]+"}, "behavior": "Removed", "invert": True},
     "decoder": {"type": "BPEDecoder", "suffix": END},
     "model": {"type": "BPE", "unk_token": "<unk>", "end_of_word_suffix": END, "continuing_subword_prefix": None,
               "vocab": ["<unk>", *LETTERS, *(c + END for c in LETTERS), "do", "dog" + END], "merges": ["d o", "do g" + END]}},
    {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Replace", "pattern": {"String": "x"}, "content": "z"}]},
     "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False},
     "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                                                  {"type": "ByteFallback"}, {"type": "Fuse"},
                                                  {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
     "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": True, "fuse_unk": True,
               "vocab": ["<unk>", *(f"<0x{b:02X}>" for b in range(256)), *LETTERS, "\u2581", "\u2581d", "\u2581do"],
               "merges": ["\u2581 d", "\u2581d o"]}},
    {"normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": True, "lowercase": True},
     "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
     "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
               "vocab": ["[UNK]", "a", "b", "##ig", "do", "##g", ","]}},
]


class Command:
    def __init__(self, name, argv, write=False, env=None, reruns=False, slow=1, whole=False):
        self.name, self.argv, self.write, self.env, self.reruns = name, argv, write, env or {}, reruns
        self.whole = whole  # all points in any run: it takes seconds
        self.slow = slow  # a point takes so many times as long as one of others: most go on to the end


def png(path, side=32):
    rows = b"".join(b"\0" + bytes((x * 5 + y * 3 + k * 40) & 255 for x in range(side) for k in range(3)) for y in range(side))
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Rig:
    def __init__(self, build, source, data):
        self.build, self.source = build, source
        self.tenon = os.path.join(build, "runtime/cli/tenon")
        self.inject = os.path.join(build, "tests/oom/oom-inject.so")
        self.tmp = tempfile.mkdtemp(prefix="oom")
        self.data = data
        self.demo = os.path.join(source, "models/demo")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("TENON_", "OOM_", "LD_PRELOAD", "XDG_"))}
        # glibc's own caches of freed blocks would differ; plugins are probed here, not in a child that is missing.
        self.env.update(HOME=self.tmp, TENON_PROBE="inprocess", LC_ALL="C",
                        TENON_PROFILE_PATH=os.path.join(source, "configs"),
                        TENON_PLUGIN_PATH=":".join(os.path.join(build, "plugins", p)
                                                   for p in ("cpu-avx2-lut", "npu-int8-sim")))

    def commands(self):
        host = ["--profile", "host", "--threads", "1", "--cache-dir", ""]
        best = ["--threads", "1", "--cache-dir", ""]
        t = lambda *a: [self.tenon, *a]
        text = os.path.join(self.tmp, "text.txt")
        with open(text, "w") as f:
            f.write("Once upon a time there was a big dog.")
        schema = os.path.join(self.tmp, "schema.json")
        with open(schema, "w") as f:
            json.dump({"type": "object", "required": ["name", "age"], "additionalProperties": False, "properties": {
                "name": {"type": "string", "pattern": "^[A-Z][a-z]{2,8}$"}, "age": {"type": "integer", "minimum": 1, "maximum": 99},
                "tags": {"type": "array", "maxItems": 2, "items": {"enum": ["big", "red"]}}}}, f)
        exports = os.path.join(self.data, "exports")
        bert = os.path.join(self.tmp, "bert")
        shutil.copytree(os.path.join(exports, "optimum-bert"), bert)
        with open(os.path.join(bert, "tokenizer.json"), "w") as f:
            json.dump({"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "WhitespaceSplit"},
                       "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                                 "max_input_chars_per_word": 100,
                                 "vocab": {w: i for i, w in enumerate(["[UNK]", "a", "big", "dog", "##s"])}}}, f)
        image = os.path.join(self.tmp, "image.png")
        png(image)
        resnet = os.path.join(self.tmp, "resnet")
        shutil.copytree(os.path.join(exports, "optimum-resnet"), resnet)
        with open(os.path.join(resnet, "preprocessor_config.json"), "w") as f:
            json.dump({"do_resize": True, "size": {"height": 32, "width": 32}, "do_rescale": True,
                       "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}, f)
        tokenizers = [self.tokenizer(n, how) for n, how in enumerate(TOKENIZERS)]
        plugin = os.path.join(self.build, "plugins/npu-int8-sim/npu-int8-sim.so")
        return [
            Command("run", t("run", self.demo, "-p", "Once upon", "-n", "4", "--temp", "0", *host), reruns=True),
            Command("run-plugin", t("run", self.demo, "-p", "Once upon", "-n", "4", "--temp", "0", *best), reruns=True),
            Command("run-schema", t("run", self.demo, "-p", "A dog is", "-n", "48", "--temp", "0", "--json-schema", schema, *host), slow=4),
            Command("check", t("check", self.demo, *best)),
            Command("check-json", t("check", self.demo, "--format", "json", *best)),
            Command("plugins", t("plugins", *best)),
            Command("plugins-json", t("plugins", "--format", "json", *best)),
            Command("plugins-probed", t("plugins", *best), env={"TENON_PROBE": ""}, reruns="only"),
            Command("inspect", t("inspect", self.demo, *host)),
            Command("eval", t("eval", self.demo, "--text", text, *host)),
            Command("verify", t("verify", os.path.join(exports, "dynamo-mobilenet", "model.onnx"), "--data",
                                os.path.join(exports, "dynamo-mobilenet"), *host)),
            Command("embed", t("embed", bert, "-p", "a big dog", *host)),
            Command("classify", t("classify", resnet, "--image", image, *host)),
            Command("pack", t("pack", self.demo, "--threads", "1", "--cache-dir", "cache"), write=True),
            Command("bundle", t("bundle", self.demo, "--profile", "cpu-avx2", "-o", "out", "--threads", "1"), write=True,
                    slow=10),
            Command("conform", t("conform", plugin, "--case", "abi/*", "--seed", "1"), reruns="only"),
            Command("chat", [os.path.join(self.build, "tests/oom/oom-chat"), self.demo,
                             os.path.join(self.source, "configs/host.yaml")]),
            Command("tokenizers", [os.path.join(self.build, "tests/oom/oom-tokenizers"), *tokenizers], whole=True),
        ]

    def tokenizer(self, n, how):
        path = os.path.join(self.tmp, f"tokenizer{n}.json")
        model = dict(how["model"], vocab={w: i for i, w in enumerate(how["model"]["vocab"])})
        with open(path, "w") as f:
            json.dump({"version": "1.0", "added_tokens": [], **how, "model": model}, f)
        return path

    def start(self, c, mode, n=None, extra=None):
        """Runs a command under the injector: (exit status, output, errors, lines of the log)."""
        where = tempfile.mkdtemp(prefix="run", dir=self.tmp)
        cwd = os.path.join(where, "cwd")
        os.mkdir(cwd)
        log = os.path.join(where, "log")
        env = dict(self.env, **c.env, OOM_MODE=mode, OOM_LOG=log, LD_PRELOAD=self.inject, **(extra or {}))
        if not env.get("TENON_PROBE"):
            env.pop("TENON_PROBE", None)
        if n:
            env["OOM_AT"] = str(n)
        with open(os.path.join(where, "1"), "w+b") as out, open(os.path.join(where, "2"), "w+b") as err:
            p = subprocess.Popen(c.argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, cwd=cwd)
            try:
                rc = p.wait(timeout=120 if mode == "at" else 24 * 3600)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
                rc = "hang"
            texts = []
            for f in (out, err):
                f.seek(0)
                texts.append(f.read().decode(errors="replace"))
        lines = open(log, errors="replace").read().splitlines() if os.path.exists(log) else []
        shutil.rmtree(where)
        return rc, *texts, lines


def plain(text):
    return MEASURED.sub("", text)


def read_points(lines):
    points = []
    for line in lines:
        key, _, value = line.partition(" ")
        if key == "point":
            n, kind, size, end = value.split()
            points.append({"n": int(n), "kind": kind, "end": end})
        elif points:
            points[-1][key] = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], value)
    return points


def judge(end, output, errors, base, live, base_live, stack):
    """None where the run ended right, else what is wrong. end: "exit-N", "signal-N" or "hang"."""
    if end.startswith(("signal", "hang")):
        return end
    same = end == base[0] and plain(output) == plain(base[1])
    # A plugin that can be done without, a cache that is not kept: the run goes on, and a warning says why.
    told = end == "exit-0" and any("warning: " in line and re.search("NO_MEMORY|allocate|Too many open", line)
                                   for line in errors.splitlines())
    if not same and not told and not (end == "exit-5" and MEMORY.search(errors + output)):
        return f"{end}: {errors.strip()[-200:]!r}" if end != base[0] else "other output"
    if live > base_live and not OTHERS_LEAK.search(stack):
        return f"{live - base_live} blocks leak"
    return None


def whole(c, rc, out, err):
    """What a run without a failure gives: a test of a command that fails anyway shows nothing."""
    if rc != 0:
        sys.exit(f"{c.name} fails without a failure: exit status {rc}\n{err}")
    return "exit-0", out


def run_points(rig, c, points, shard, seed, log, mistakes):
    """The fork mode: (points passed, points tried)."""
    rc, out, err, lines = rig.start(c, "count")
    end = read_points(lines)[-1]
    base = whole(c, rc, out, err)
    stride = c.slow if shard or not points else max(1, -(-end["n"] // (points // c.slow)))
    extra = {"OOM_STRIDE": str(stride), "OOM_SEED": str(seed), "OOM_LIVE": end["live"], "OOM_COPY": "1" if c.write else "0"}
    if shard:
        first = [end["n"] * k // shard[1] for k in (shard[0], shard[0] + 1)]
        extra |= {"OOM_AT": str(first[0] + 1), "OOM_TO": str(max(first[1], 1))}
    _, _, _, lines = rig.start(c, "fork", extra=extra)
    points = read_points(lines)
    tried = [p for p in points if p["end"] != "here"]
    if len(tried) == len(points):
        mistakes.append((c.name, "the run itself ended early", points[-1] if points else {"n": 0, "kind": "", "stack": ""}))
    for p in tried:
        wrong = judge(p["end"], p.get("output", ""), p.get("stderr", ""), base, int(p.get("live", 0)), int(end["live"]),
                      p.get("stack", ""))
        if wrong:
            mistakes.append((c.name, wrong, p))
    if log:
        log.write("\n".join(lines) + "\n")
    return end["n"], tried


def run_again(rig, c, count, seed, mistakes):
    """With threads and children: a run from its beginning for each point."""
    rc, out, err, lines = rig.start(c, "count")
    end = read_points(lines)[-1]
    base, n = whole(c, rc, out, err), end["n"]
    for i in range(count):
        at = 1 + (seed * 7919 + i * 104729 * 31) % n
        rc, out, err, lines = rig.start(c, "at", at)
        points = read_points(lines)
        stack = points[0].get("stack", "") if points else ""
        ending = "hang" if rc == "hang" else f"signal-{-rc}" if rc < 0 else f"exit-{rc}"
        live = int(points[-1]["live"]) if points and "live" in points[-1] else 0
        wrong = judge(ending, out, err, base, live, max(int(end["live"]), live if c.reruns else 0), stack)
        if wrong:
            mistakes.append((c.name, wrong, {"n": at, "kind": "rerun", "stack": stack, "stderr": err}))
    return count


def run_limits(rig, c, few, seed, mistakes):
    """Address space of 20 to 200 MB in steps; few: every fourth, by the seed. Sanitizers reserve more than that."""
    env = dict(rig.env, **c.env)
    fresh = lambda: tempfile.mkdtemp(prefix="limit", dir=rig.tmp)  # what a command writes lies in its working folder
    p = subprocess.run(c.argv, env=env, capture_output=True, text=True, cwd=fresh())
    base, n = whole(c, p.returncode, p.stdout, p.stderr), 0
    for mb in range(20, 201, 12)[seed % 4 if few else 0::4 if few else 1]:
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (mb << 20, mb << 20))
        try:
            p = subprocess.run(c.argv, env=env, capture_output=True, text=True, cwd=fresh(), preexec_fn=limit, timeout=60)
            end = f"exit-{p.returncode}" if p.returncode >= 0 else f"signal-{-p.returncode}"
        except subprocess.TimeoutExpired:
            end = "hang"
        n += 1
        # The system's loader needs memory before any of this program runs; it exits with 127.
        if end == "exit-127" and "error while loading shared libraries" in p.stderr:
            continue
        wrong = judge(end, p.stdout, p.stderr, base, 0, 0, "")
        if wrong:
            mistakes.append((c.name, f"{mb} MB of address space: {wrong}", {"n": mb, "kind": "RLIMIT_AS", "stack": "",
                                                                         "stderr": p.stderr}))
    return n


def main():
    a = argparse.ArgumentParser()
    a.add_argument("build")
    a.add_argument("--source", default=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    a.add_argument("--points", type=int, default=300)
    a.add_argument("--all", action="store_true")
    a.add_argument("--shard", type=lambda s: [int(n) for n in s.split("/")])
    a.add_argument("--seed", type=int, default=int(os.environ.get("TENON_OOM_SEED", datetime.date.today().toordinal())))
    a.add_argument("--only", action="append")
    a.add_argument("--log")
    a.add_argument("--list", action="store_true", help="the names of the commands")
    a.add_argument("--most", type=int, default=5, help="mistakes shown of a command")
    o = a.parse_args()
    build = os.path.abspath(o.build)
    rig = Rig(build, o.source, os.environ.get("TENON_TEST_DATA") or os.path.join(build, "tests/data"))
    log = open(o.log, "a") if o.log else None
    if o.list:
        print("\n".join(c.name for c in rig.commands()))
        shutil.rmtree(rig.tmp)
        return 0
    bad = total = 0
    print(f"seed {o.seed}")
    try:
        for c in rig.commands():
            if o.only and c.name not in o.only:
                continue
            mistakes, begun = [], datetime.datetime.now()
            n, tried, again = 0, [], 0
            if c.reruns != "only":
                n, tried = run_points(rig, c, 0 if o.all or c.whole else o.points, o.shard, o.seed, log, mistakes)
            if c.reruns and not (o.shard and o.shard[0]):
                again = run_again(rig, c, RERUNS, o.seed, mistakes)
            few = not (o.all or o.shard or c.name in ("run", "check", "chat"))
            limits = 0
            if c.reruns != "only" and not (o.shard and o.shard[0]):
                limits = run_limits(rig, c, few, o.seed, mistakes)
            kinds = collections.Counter(p["kind"] for p in tried)
            same = sum(p["end"] == "exit-0" for p in tried)
            print(f"{c.name}: {len(tried)} of {n} points fail ({same} go on, {len(tried) - same} stop), {again} reruns, "
                  f"{limits} limits, {len(mistakes)} mistakes, {(datetime.datetime.now() - begun).seconds} s  "
                  + ", ".join(f"{k} {v}" for k, v in sorted(kinds.items())), flush=True)
            for name, wrong, p in mistakes[:o.most]:
                print(f"  {name} point {p['n']} ({p['kind']}): {wrong}\n    {p.get('stack', '')[:300]}")
            bad += len(mistakes)
            total += len(tried) + again + limits
    finally:
        shutil.rmtree(rig.tmp, ignore_errors=True)
    print(f"{total} failures, {bad} mistakes")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
