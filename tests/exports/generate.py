# SPDX-License-Identifier: Apache-2.0
"""generate.py TENON GENERATE ARCHIVE CONFIGS PLUGIN COUNT [NAME...]: 40 greedy tokens of every decoder of the archive, from ids.

On the host as ONNX Runtime's own loop with cache makes them (generate.json beside each model, by goldens.py): equal until
ONNX Runtime's two best logits are closer than the model's bound, and of 40 tokens 30 compared at least. On the CPU plugin
in PLUGIN's folder ("": none) each token is one that the plugin's reference likes as much as its best, within PLUGIN_BOUND.
One prompt goes through `tenon run --prompt-ids`, batches of two through GENERATE (generate.c). README.md has the bounds.
A text that grows past the limit of its rotary tables (LIMITS) is compared up to there, and then with itself.
"""
import concurrent.futures
import json
import lzma
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

TOKENS, LEAST, LEAST_ON_PLUGIN = 40, 30, 60
PLUGIN_BOUND = 0.05
# Longest text of the first rotary tables. ONNX Runtime's loop goes on with keys of these; `tenon run` runs the text again.
LIMITS = {"genai-phi3-longrope-int4": 32}


class Failed(Exception):
    pass


def run(args, env):
    """What it prints, and what it says beside that."""
    r = subprocess.run([str(a) for a in args], capture_output=True, text=True, env=env)
    if r.returncode != 0:
        raise Failed(f"{' '.join(r.stderr.split())[:300]} (exit {r.returncode})")
    return r.stdout, r.stderr


def listed(ids):
    return ",".join(map(str, ids))


class Runner:
    def __init__(self, tenon, generate, profile, env):
        self.tenon, self.generate, self.profile, self.env = tenon, generate, profile, env
        self.on_plugin = set()  # models of which the plugin takes nodes

    def after(self, path, prompt, tokens=TOKENS, more=()):
        """What `tenon run` generates after one prompt."""
        out, said = run([self.tenon, "run", path, "--profile", self.profile, "--prompt-ids", listed(prompt), "--ids",
                         "--temp", 0, "-n", tokens, *more], self.env)
        got = out.split()
        if "placement: cpu-" in said:
            self.on_plugin.add(path)
        if got[:len(prompt)] != [str(i) for i in prompt]:
            raise Failed("the prompt's ids are not printed first")
        return [int(i) for i in got[len(prompt):]]

    def ids(self, path, case):
        """What is generated: one list for each prompt."""
        prompts = case["prompts"]
        if len(prompts) == 1:
            return [self.after(path, prompts[0])]
        out, _ = run([self.generate, self.profile, path, TOKENS, case["pad"], *map(listed, prompts)], self.env)
        return [[int(i) for i in line.split()] for line in out.splitlines()]

    def gap(self, path, case, ids, tokens):
        return float(run([self.generate, self.profile, path, tokens, case["pad"], *map(listed, case["prompts"]), "=",
                          *map(listed, ids)], self.env)[0])


def compared(case, bound):
    """Of each sequence, how many tokens ONNX Runtime chose clearly."""
    return [next((t for t, m in enumerate(row) if m < bound), TOKENS) for row in case["margins"]]


def tokens_up_to_limit(path, case):
    """How many of the tokens end no text that is longer than the first rotary tables are for."""
    limit = LIMITS.get(path.parent.name) if len(case["prompts"]) == 1 else None
    return min(TOKENS, limit + 1 - len(case["prompts"][0])) if limit else TOKENS


def past_limit(runner, path, prompt, ids, n):
    """A text that grew past the limit, by the n-th token, goes on as one that is given as a whole, in one step or many."""
    whole = prompt + ids[:n]
    for profile in ("prefill_chunk: 0", "prefill_chunk: 8"):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
            f.write(f"plugins: [host]\n{profile}\n")
            f.flush()
            again = Runner(runner.tenon, runner.generate, f.name, runner.env).after(path, whole, TOKENS - n)
        if again != ids[n:]:
            raise Failed(f"after {len(whole)} tokens {ids[n:]}, and {again} where they are the prompt ({profile})")
    # Guesses change nothing, nor do they where a text comes near the limit.
    if runner.after(path, prompt, TOKENS, ["--lookup", 8]) != ids:
        raise Failed("with guesses the ids are others")


def on_host(runner, path, case, bound):
    counts = compared(case, bound)
    if min(counts) < LEAST:
        raise Failed(f"only {counts} of {TOKENS} tokens can be compared: goldens.py has to find other prompts")
    got = runner.ids(path, case)
    most = tokens_up_to_limit(path, case)
    counts = [min(n, most) for n in counts]
    if most < TOKENS:
        past_limit(runner, path, case["prompts"][0], got[0], most)
    for g, want, n in zip(got, case["ids"], counts, strict=True):
        if len(g) != TOKENS:
            raise Failed(f"{len(g)} tokens instead of {TOKENS}")
        wrong = next((t for t in range(n) if g[t] != want[t]), None)
        if wrong is not None:
            raise Failed(f"token {wrong} of {n} is {g[wrong]} instead of {want[wrong]}")
    return "/".join(map(str, counts))


def on_plugin(runner, path, case):
    got = runner.ids(path, case)
    if any(len(g) != TOKENS for g in got) or len(got) != len(case["prompts"]):
        raise Failed(f"{[len(g) for g in got]} tokens instead of {TOKENS}")
    most = tokens_up_to_limit(path, case)
    gap = runner.gap(path, case, [g[:most] for g in got], most)
    if not gap <= PLUGIN_BOUND:
        raise Failed(f"a token is {gap} below the best one of the reference, more than {PLUGIN_BOUND}")
    return gap


def one(folder, host, plugin):
    """A line, and whether all is well."""
    goldens = json.loads((folder / "generate.json").read_text())
    words, good, worst = [], True, 0.0
    for name, case in goldens["cases"].items():
        try:
            words.append(f"{name} {on_host(host, folder / 'model.onnx', case, goldens['bound'])}")
            if plugin:
                worst = max(worst, on_plugin(plugin, folder / "model.onnx", case))
        except Failed as e:
            words.append(f"{name} FAILED: {e}")
            good = False
    if plugin:
        words.append(f"plugin within {worst:.1e}")
    return f"{folder.name}: {', '.join(words)}", good


def unpack(archive, work):
    with lzma.open(archive) as f, tarfile.open(fileobj=f) as tar:
        tar.extractall(work, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return sorted(p.parent for p in pathlib.Path(work).glob("*/generate.json"))


def main():
    tenon, generate, archive, configs, plugin_dir, count, *names = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        folders = [f for f in unpack(archive, work) if not names or f.name in names]
        env = dict(os.environ, TENON_PROFILE_PATH=configs, TENON_CACHE_DIR="", TENON_PLUGIN_PATH=plugin_dir)
        host = Runner(tenon, generate, f"{configs}/host.yaml", env)
        plugin = Runner(tenon, generate, f"{configs}/default.yaml", env) if plugin_dir else None
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            results = list(pool.map(lambda f: one(f, host, plugin), folders))
    print("\n".join(line for line, _ in results))
    if plugin and not names and len(plugin.on_plugin) < LEAST_ON_PLUGIN:
        sys.exit(f"the plugin takes part in {len(plugin.on_plugin)} models, not in {LEAST_ON_PLUGIN}")
    failed = sum(not good for _, good in results)
    print(f"{len(results)} decoders, {failed} failed{'' if plugin_dir else '; no CPU plugin here'}")
    if not names and len(results) < int(count):
        sys.exit(f"the archive should hold {count} decoders")
    sys.exit(1 if failed or not results else 0)


if __name__ == "__main__":
    main()
