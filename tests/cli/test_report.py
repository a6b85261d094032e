# SPDX-License-Identifier: Apache-2.0
"""tenon report: one page, nothing from outside, figures that the commands on it give, work that is kept, mistakes."""
import html.parser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time

import common
from common import BUILD, DEMO, SOURCE, TENON

VOID = {"meta", "br", "input", "img", "link", "hr"}
# HTML lets these end by what comes next.
OPEN = {"p", "li", "td", "th", "tr", "thead", "tbody", "html", "body", "head"}


class Page(html.parser.HTMLParser):
    """What a page has: tags that nest, ids, links, text of each cell."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.ids, self.links, self.outside, self.tags = [], [], [], [], set()
        self.rows, self.commands, self.style, self.in_cell = [], {}, "", None
        self.feed(text)
        self.close()
        left = [t for t in self.stack if t not in OPEN]
        assert not left, left

    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        self.tags.add(tag)
        if "id" in a:
            self.ids.append(a["id"])
        for key in ("href", "src", "srcset", "data", "action", "xlink:href"):
            if key in a:
                (self.links if a[key].startswith("#") else self.outside).append(a[key])
        if tag not in VOID:
            self.stack.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag == "li":
            self.item = a.get("id")
        self.in_cell = tag in ("td", "th") or (self.in_cell and tag in ("a", "span", "br"))

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        while self.stack and self.stack[-1] != tag and self.stack[-1] in OPEN:
            self.stack.pop()
        assert self.stack and self.stack[-1] == tag, (tag, self.stack, self.getpos())
        self.stack.pop()
        if tag in ("td", "th", "tr", "table"):
            self.in_cell = False

    def handle_data(self, text):
        if self.stack and self.stack[-1] == "style":
            self.style += text
        if self.in_cell and self.rows and self.rows[-1]:
            self.rows[-1][-1] += text
        if self.stack and self.stack[-1] == "code" and text.startswith("tenon ") and getattr(self, "item", None):
            self.commands[self.item] = self.commands.get(self.item, "") + text


class Report(common.Case):
    SMALL = ("--max-tokens", "48", "--n-prompt", "16", "--n-gen", "4", "-r", "1", "-n", "12")

    def text(self, name="text.json", n=2):
        path = self.tmp / name
        path.write_text(json.dumps([t[:600] for t in json.loads((SOURCE / "models/train/valid.json").read_text())[:n]]))
        return path

    def report(self, *more):
        return ["report", DEMO, "-o", self.tmp / "r.html", "--text", self.text(), "--weights", "w4g:32", "--weights", "w2g",
                *self.SMALL, *more]

    def need_plugin(self):
        if common.EMULATOR:
            self.skipTest("a program under an emulator does not start itself")
        if not common.has_avx2():
            self.skipTest("no AVX2, or the plugin was not built")

    def test_page(self):
        self.need_plugin()
        asked = self.report("--prompt", "A <b>\"bold\" & 'quoted'", "--work", self.tmp / "work")
        figures = self.json(*asked)
        rows = {r["label"]: r for r in figures["rows"]}
        self.assertEqual(list(rows), ["f32", "f32, cache f16", "f32, cache bf16", "f32, cache int8", "f32, cache int4", "default", "w4g:32", "w2g"])
        self.assertEqual(figures["failed"], 0)
        text = (self.tmp / "r.html").read_text()
        page = Page(text)
        # nothing from outside, no script, readable on a phone
        self.assertEqual(page.outside, [])
        self.assertFalse(page.tags & {"script", "link", "iframe", "img", "object", "embed", "base"})
        self.assertNotIn("url(", page.style)
        self.assertNotIn("@import", page.style)
        self.assertIn("width=device-width", text)
        # every figure names a command that is there
        self.assertEqual(len(page.ids), len(set(page.ids)))
        self.assertEqual({x[1:] for x in page.links} - set(page.ids), set())
        self.assertNotIn('<b>"bold"', text)
        self.assertIn("A &lt;b&gt;&quot;bold&quot; &amp; 'quoted'", text)
        # what the page shows, what --format json says and what the command on it gives are one
        shown = {r[0]: r for r in page.rows if len(r) == 9}
        self.assertEqual(shown["w2g"][3], f"{rows['w2g']['kl_divergence']:.4f}")
        self.assertEqual(shown["w2g"][1], f"{rows['w2g']['bits_per_weight']:.2f}")
        for row, command in (("w2g", "w2g.eval"), ("f32, cache int8", "kv-int8.eval")):
            words = shlex.split(page.commands[command])
            self.assertEqual(words[0], "tenon")
            again = json.loads(self.ok(*words[1:]).stdout)
            self.assertAlmostEqual(again["kl_divergence"], rows[row]["kl_divergence"], places=9)
        self.assertGreater(rows["w2g"]["kl_divergence"], 10 * rows["w4g:32"]["kl_divergence"])
        self.assertGreater(rows["f32, cache int8"]["kl_divergence"], rows["f32, cache f16"]["kl_divergence"])
        # layers of the map: six, and the head
        self.assertRegex(text, r"<th>layer</th><th>q_proj</th><th>o_proj</th><th>gate_proj</th><th>down_proj</th><th>lm_head</th>")
        self.assertIn("<td>5</td>", text)
        self.assertIn("<td>others</td>", text)
        # a second call asks nothing again
        before = {p.name: p.stat().st_mtime_ns for p in (self.tmp / "work").glob("*.json")}
        self.assertIn("w2g.bench.json", before)
        again = self.json(*asked)
        self.assertEqual(again, figures)
        self.assertEqual({p.name: p.stat().st_mtime_ns for p in (self.tmp / "work").glob("*.json")}, before)
        # one of another text does
        self.text().write_text(json.dumps(["Another text, of which the model knows little."]))
        os.utime(self.tmp / "text.json", ns=(1, 1))
        other = self.json("report", DEMO, "-o", self.tmp / "r.html", "--text", self.tmp / "text.json", "--weights", "w2g", *self.SMALL,
                          "--work", self.tmp / "work")
        self.assertNotEqual(other["rows"][-1]["kl_divergence"], rows["w2g"]["kl_divergence"])

    def test_a_format_that_fails_and_no_text(self):
        self.need_plugin()
        r = self.ok("report", DEMO, "-o", self.tmp / "r.html", "--weights", "w9g", *self.SMALL)
        self.assertIn("commands failed", r.stderr)
        text = (self.tmp / "r.html").read_text()
        Page(text)
        self.assertIn("w9g", re.search(r'id="w9g.check">.*?<span class=why>failed: (.*?)</span>', text).group(1))
        self.assertIn("--text FILE", text)
        self.assertEqual(sorted(p.name for p in self.tmp.iterdir()), ["cache", "r.html"])

    def stamp(self, *asked):
        """Of the first answer that is kept; no more is waited for."""
        work = self.tmp / "stamps"
        p = subprocess.Popen([TENON, *map(str, asked), "--work", str(work)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ, TENON_CACHE_DIR=str(self.cache)))
        end = time.time() + 120
        while p.poll() is None and not list(work.glob("f32.*.json")) and time.time() < end:
            time.sleep(0.01)
        p.send_signal(signal.SIGINT)
        p.wait(60)
        stamp = json.loads(next(work.glob("f32.*.json")).read_text())["stamp"]
        shutil.rmtree(work)
        return stamp

    def test_what_answers_are_of(self):
        model, profile = self.tmp / "model", self.profile("plugins: [host]\n")
        shutil.copytree(DEMO, model)
        data = model / "model.onnx_data"
        data.write_bytes(b"x")
        asked = ["report", model, "-o", self.tmp / "r.html", "--profile", profile, *self.SMALL]
        first = self.stamp(*asked)
        (model / "other.onnx_data").write_bytes(b"x")
        self.assertEqual(self.stamp(*asked), first)
        for path in (data, profile):
            path.touch()
            now = self.stamp(*asked)
            self.assertNotEqual(now, first, path)
            first = now

    def test_interrupted(self):
        self.need_plugin()
        work = self.tmp / "work"
        env = dict(os.environ, TENON_PLUGIN_PATH=str(BUILD / "plugins/cpu-avx2-lut"), TENON_PROFILE_PATH=str(SOURCE / "configs"),
                   TENON_CACHE_DIR=str(self.cache))
        p = subprocess.Popen([TENON, *map(str, self.report("--work", work))], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=env)
        end = time.time() + 120
        while p.poll() is None and not list(work.glob("f32.*.json")) and time.time() < end:
            time.sleep(0.01)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 130, err)
        self.assertFalse((self.tmp / "r.html").exists())
        self.assertTrue(list(work.glob("f32.*.json")))

    def test_mistakes(self):
        self.fails(2, "-o FILE.html is needed", args=["report", DEMO])
        self.fails(2, "--format csv", args=["report", DEMO, "-o", "x.html", "--format", "csv"])
        self.fails(3, "nowhere", args=["report", self.tmp / "nowhere", "-o", self.tmp / "r.html"])
        self.fails(6, "no-folder", args=["report", DEMO, "-o", self.tmp / "r.html", "--work", "/proc/no-folder"])
        if common.EMULATOR:
            return
        r = self.fails(3, "no-text", args=["report", DEMO, "-o", self.tmp / "r.html", "--text", self.tmp / "no-text", *self.SMALL,
                                           "--format", "json"])
        self.assertIn("tenon eval", json.loads(r.stdout)["error"]["message"])
        self.assertFalse((self.tmp / "r.html").exists())

    def test_original(self):
        """eval --original: the other side is another model."""
        text = self.text()
        self.fails(2, "--original goes with --against host", args=["eval", DEMO, "--text", text, "--original", DEMO])
        same = self.json("eval", DEMO, "--text", text, "--profile", "host", "--against", "host", "--original", DEMO, "--max-tokens", "32")
        self.assertEqual(same["kl_divergence"], 0)
        self.assertEqual(same["top1_agreement"], 1)
        rounded = self.tmp / "rounded"
        self.ok("quantize", DEMO, "-o", rounded, "--round", "--bits", "2", "--zeros")
        own = self.json("eval", rounded, "--text", text, "--profile", "host", "--against", "host", "--max-tokens", "32")
        far = self.json("eval", rounded, "--text", text, "--profile", "host", "--against", "host", "--original", DEMO,
                        "--max-tokens", "32")
        self.assertLess(own["kl_divergence"], 1e-6)
        self.assertGreater(far["kl_divergence"], 0.1)

    def test_calibrated(self):
        """Long: rows of tenon quantize, sensitivities of every product."""
        self.need_plugin()
        figures = self.json("report", DEMO, "-o", self.tmp / "r.html", "--text", self.text(), "--calibrate", self.text("cal.json", 3),
                            "--weights", "w2g", *self.SMALL, timeout=1500)
        rows = {r["label"]: r for r in figures["rows"]}
        self.assertEqual(list(rows)[-4:], ["w2g", "w4g:32, calibrated", "w2g, calibrated", "3.5 bits, mixed"])
        self.assertEqual(figures["failed"], 0)
        self.assertGreater(rows["w2g, calibrated"]["kl_divergence"], rows["w4g:32, calibrated"]["kl_divergence"])
        text = (self.tmp / "r.html").read_text()
        Page(text)
        self.assertIn("measured for 43 of 43 products", text)
        self.assertFalse((self.tmp / "r.html.partial").exists())


if __name__ == "__main__":
    common.main()
