# SPDX-License-Identifier: Apache-2.0
"""table.py BUILD [--write | NAME...]: how each export runs as a user would run it, in Markdown; --write puts it into
docs/exports.md.

verify: data sets equal to ONNX Runtime's, of all. generate: of 40 greedy tokens of a prompt, a long one and a batch of two,
how many ONNX Runtime chose clearly and Tenon gave too. on a plugin: the share of a token's multiplications with weights that
the CPU plugin takes in the default profile. caches: how many stay in place. moves: Transposes and Reshapes in a step.
"""
import concurrent.futures
import json
import os
import pathlib
import sys
import tempfile

import generate
from generate import Failed, Runner, run

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs/exports.md"
BEGIN, END = "<!-- written by tests/exports/table.py -->\n", "<!-- end of table.py -->\n"
HEAD = ("export", "verify", "generate", "on a plugin", "caches in place", "moves in a step")


class Table:
    def __init__(self, build):
        root = HERE.parent.parent
        self.tenon = build / "runtime/cli/tenon"
        plugins = ":".join(str(build / "plugins" / p) for p in ("cpu-avx2-lut", "cpu-neon-lut"))
        self.env = dict(os.environ, TENON_PROFILE_PATH=str(root / "configs"), TENON_CACHE_DIR="", TENON_PLUGIN_PATH=plugins)
        self.host = Runner(self.tenon, build / "tests/exports/exports_generate", f"{root}/configs/host.yaml", self.env)

    def report(self, command, path, profile):
        return json.loads(run([self.tenon, command, path, "--profile", profile, "--format", "json"], self.env)[0])

    def verified(self, folder):
        bound = folder / "bound"
        rtol, atol = bound.read_text().split() if bound.exists() else ("1e-3", "2e-4")
        sets = len(list(folder.glob("test_data_set_*")))
        try:
            _, said = run([self.tenon, "verify", folder / "model.onnx", "--data", folder, "--profile", "host", "--rtol",
                          rtol, "--atol", atol], self.env)
        except Failed:
            return f"**not all of {sets}**"
        return str(sets) if f"{sets} data sets, 0 failed" in said else f"**not all of {sets}**"

    def generated(self, folder):
        path = folder / "generate.json"
        if not path.exists():
            return ""
        goldens, words = json.loads(path.read_text()), []
        for case in goldens["cases"].values():
            try:
                words.append(generate.on_host(self.host, folder / "model.onnx", case, goldens["bound"]))
            except Failed:
                words.append("**wrong**")
        return ", ".join(words)

    def row(self, folder):
        path = folder / "model.onnx"
        check, inspect = self.report("check", path, "default"), self.report("inspect", path, "host")
        macs = check["weight_macs"]
        share = sum(n for d, n in macs.items() if d != "host") / sum(macs.values()) if macs else None
        past = sum(i["name"].startswith("past") and ".encoder." not in i["name"] for i in inspect["inputs"])
        kept = sum(c["caches"] for c in inspect["caches"]) if inspect["caches_kept"] else 0
        return (folder.name, self.verified(folder), self.generated(folder), "" if share is None else f"{share:.0%}",
                f"{kept} of {past}" if past else "", str(inspect["layout_ops_left"]))


def main():
    table, names = Table(pathlib.Path(sys.argv[1]).resolve()), [n for n in sys.argv[2:] if n != "--write"]
    with tempfile.TemporaryDirectory() as work:
        generate.unpack(HERE / "models.tar.xz", work)
        folders = [p for p in sorted(pathlib.Path(work).iterdir()) if not names or p.name in names]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            rows = list(pool.map(table.row, folders))
    lines = [HEAD, ("---",) * len(HEAD), *rows]
    text = "".join("| " + " | ".join(line) + " |\n" for line in lines)
    if "--write" in sys.argv:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(before + BEGIN + text + END + rest.split(END)[1])
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
