#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decoding several texts at once (tn_batch) beside one alone, on any language model.

  bench/batch.py BUILD MODEL [--profile P] [--clients 4] [--tokens 64] [--prompt 32] [--rounds 3] [--json FILE]

Prompts are random ids of their own, greedy, EOS ignored. In turns: one text alone, all together, all together with
TN_BATCH_EXACT. Prints medians of decode tokens/s in sum, the ratio to one, and whether all ids are those of texts alone;
fails where they are not. For MODEL: bench/make_llama.py, or any folder. Python's standard library only.
"""
import argparse, ctypes as c, json, os, random, statistics, sys, time

I32P = c.POINTER(c.c_int32)
TOKEN_FN = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int32, c.c_void_p, c.c_size_t)


class Hdr(c.Structure):
    _fields_ = [("size", c.c_uint32), ("major", c.c_uint16), ("minor", c.c_uint16)]


class Error(c.Structure):
    _fields_ = [("h", Hdr), ("code", c.c_int32), ("vendor", c.c_int32), ("node", c.c_uint32), ("task", c.c_uint32),
                ("message", c.c_char * 256), ("where", c.c_char * 128)]


class RuntimeOpts(c.Structure):
    _fields_ = [("h", Hdr), ("profile", c.c_char_p), ("profile_dirs", c.POINTER(c.c_char_p)), ("plugin_dirs", c.POINTER(c.c_char_p)),
                ("cache_dir", c.c_char_p), ("n_profile_dirs", c.c_uint32), ("n_plugin_dirs", c.c_uint32), ("threads", c.c_uint32),
                ("log_level", c.c_uint32), ("log", c.c_void_p), ("log_user", c.c_void_p), ("progress", c.c_void_p),
                ("progress_user", c.c_void_p), ("flags", c.c_uint32), ("reserved", c.c_uint32)]


class BatchOpts(c.Structure):
    _fields_ = [("h", Hdr), ("slots", c.c_uint32), ("flags", c.c_uint32), ("context", c.c_int64), ("chunk", c.c_int64)]


class GenParams(c.Structure):  # its first fields; what follows is 0 in a struct of this size
    _fields_ = [("h", Hdr), ("max_tokens", c.c_uint32), ("top_k", c.c_uint32), ("temperature", c.c_float), ("top_p", c.c_float),
                ("min_p", c.c_float), ("repeat_penalty", c.c_float), ("seed", c.c_uint64), ("stop", c.c_void_p),
                ("n_stop", c.c_uint32), ("flags", c.c_uint32)]


def make(kind, **values):
    x = kind(**values)
    x.h = Hdr(c.sizeof(kind), 1, 0)
    return x


class Tenon:
    def __init__(self, a):
        self.lib = c.CDLL(os.path.join(a.build, "runtime/libtenon.so"))
        self.err = Error()
        plugins = sorted(os.path.join(a.build, "plugins", d) for d in os.listdir(os.path.join(a.build, "plugins")))
        plugins = [os.path.abspath(d).encode() for d in plugins if os.path.isdir(d)]
        configs = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "configs").encode()
        o = make(RuntimeOpts, profile=a.profile.encode(), threads=a.threads, cache_dir=a.cache and a.cache.encode(),
                 profile_dirs=(c.c_char_p * 1)(configs), n_profile_dirs=1, plugin_dirs=(c.c_char_p * len(plugins))(*plugins),
                 n_plugin_dirs=len(plugins), flags=128)
        self.rt, self.lm = c.c_void_p(), c.c_void_p()
        self.call("tn_runtime_create", c.byref(o), c.byref(self.rt))
        self.call("tn_lm_load", self.rt, a.model.encode(), None, c.byref(self.lm))

    def call(self, name, *args):
        if getattr(self.lib, name)(*args, c.byref(self.err)):
            sys.exit(f"{name}: {self.err.message.decode()}")

    def run(self, prompts, tokens, context, flags=0):
        """ids per prompt, and (tokens, seconds) of the steps in which all of them decode."""
        b, running, slot = c.c_void_p(), c.c_uint32(), c.c_uint32()
        o = make(BatchOpts, slots=len(prompts), flags=flags, context=context)
        self.call("tn_batch_create", self.lm, c.byref(o), c.byref(b))
        out = [[] for _ in prompts]
        p = make(GenParams, max_tokens=tokens, temperature=0, top_p=1, repeat_penalty=1, flags=1)
        fns = [TOKEN_FN(lambda user, i, text, n, to=to: to.append(i) and 0 or 0) for to in out]
        for ids, fn in zip(prompts, fns):
            self.call("tn_batch_start", b, (c.c_int32 * len(ids))(*ids), c.c_size_t(len(ids)), c.byref(p), fn, None, c.byref(slot))
        count, spent = 0, 0.0
        while True:
            ready, before, t0 = all(out), sum(map(len, out)), time.monotonic()
            self.call("tn_batch_step", b, c.byref(running))
            if ready and sum(map(len, out)) - before == len(prompts):
                spent += time.monotonic() - t0
                count += len(prompts)
            if not running.value:
                break
        shares = self.lib.tn_batch_shares(b)
        self.lib.tn_batch_destroy(b)
        return out, count / spent, shares


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("model")
    p.add_argument("--profile", default="default")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--clients", type=int, default=4)
    p.add_argument("--tokens", type=int, default=64)
    p.add_argument("--prompt", type=int, default=32)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--vocab", type=int, default=1000, help="ids are below it")
    p.add_argument("--cache", help="folder of packed weights")
    p.add_argument("--json")
    a = p.parse_args()
    t = Tenon(a)
    for f in ("tn_batch_destroy",):
        getattr(t.lib, f).restype = None
    rng = random.Random(1)
    prompts = [[rng.randrange(3, a.vocab) for _ in range(a.prompt + i)] for i in range(a.clients)]
    context = a.prompt + a.clients + a.tokens + 8
    context += -context % 64
    alone = [t.run([x], a.tokens, context)[0][0] for x in prompts]
    rates, same = {"one": [], "together": [], "exact": []}, {"together": True, "exact": True}
    for _ in range(a.rounds):
        rates["one"].append(t.run(prompts[:1], a.tokens, context)[1])
        for way, flags in (("together", 0), ("exact", 1)):
            out, rate, shares = t.run(prompts, a.tokens, context, flags)
            rates[way].append(rate)
            same[way] = same[way] and out == alone
            if way == "together" and not shares:
                sys.exit("the model's texts cannot share their steps")
    result = {k: statistics.median(v) for k, v in rates.items()}
    result |= {"ratio": result["together"] / result["one"], "same": same, "clients": a.clients, "model": a.model, "profile": a.profile}
    print(f"one {result['one']:.2f} tokens/s; {a.clients} together {result['together']:.2f} ({result['ratio']:.2f}x); each on its own "
          f"{result['exact']:.2f} ({result['exact'] / result['one']:.2f}x); ids equal: {same}")
    if a.json:
        with open(a.json, "w") as f:
            json.dump(result, f, indent=1)
    sys.exit(not all(same.values()))


if __name__ == "__main__":
    main()
