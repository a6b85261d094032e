# SPDX-License-Identifier: Apache-2.0
"""The server's page in headless Chromium, driven by its pipe of the DevTools protocol.

TENON_PAGE_PICTURE: a file for a picture of a conversation."""
import base64
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from server import Serving, main


class Browser:
    def __init__(self, program, url):
        self.home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (from_us, to_it), (from_it, to_us) = os.pipe(), os.pipe()
        def fds():
            a, b = os.dup(from_us), os.dup(to_us)
            os.dup2(a, 3)
            os.dup2(b, 4)
        self.p = subprocess.Popen([program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe",
                                   "--window-size=1000,640", f"--user-data-dir={self.home.name}"], preexec_fn=fds, close_fds=False, start_new_session=True,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(from_us)
        os.close(to_us)
        self.out, self.into = os.fdopen(to_it, "wb"), os.fdopen(from_it, "rb")
        self.n, self.session, self.held, self.said = 0, None, b"", []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")
        self.call("Page.navigate", url=url)

    def call(self, method, **params):
        self.n += 1
        m = {"id": self.n, "method": method, "params": params}
        if self.session:
            m["sessionId"] = self.session
        self.out.write(json.dumps(m).encode() + b"\0")
        self.out.flush()
        while True:
            while b"\0" not in self.held:
                data = self.into.read1(65536)
                assert data, "the browser ended"
                self.held += data
            text, self.held = self.held.split(b"\0", 1)
            j = json.loads(text)
            if j.get("id") == self.n:
                assert "error" not in j, j
                return j["result"]
            if j.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
                self.said.append(j["params"])

    def run(self, script):
        r = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in r, r
        return r["result"].get("value")

    def until(self, script, seconds=60):
        end = time.time() + seconds
        while not self.run(script):
            assert time.time() < end, f"never: {script}\n{self.run('document.body.innerText')}\n{self.said}"
            time.sleep(0.05)

    def close(self):
        os.killpg(self.p.pid, signal.SIGKILL)  # its helpers write into its folder, too
        self.p.wait()
        self.out.close()
        self.into.close()
        self.home.cleanup()


class Page(Serving):
    def setUp(self):
        super().setUp()
        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if not program:
            self.skipTest("there is no Chromium")
        self.b = Browser(program, self.server.url + "/")
        self.addCleanup(self.b.close)

    def say(self, text):
        self.b.run(f"document.getElementById('say').value = {json.dumps(text)}; document.getElementById('send').click()")

    def texts(self, kind):
        return self.b.run(f"[...document.querySelectorAll('.{kind}')].map(e => e.textContent)")

    def test_a_conversation(self):
        b = self.b
        b.until("document.getElementById('model')?.value === 'demo'")
        self.assertIn("host: ", b.run("document.getElementById('device').textContent"))
        b.run("document.getElementById('temperature').value = 0; document.getElementById('max_tokens').value = 24")
        self.say("In the beginning <b>God</b>")
        b.until("document.getElementById('stats').textContent.includes('tokens/s')")
        want = self.server.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "In the beginning <b>God</b>"}],
                                                        "max_tokens": 24, "temperature": 0})[1]["choices"][0]["message"]["content"]
        self.assertEqual(self.texts("assistant"), [want])
        self.assertEqual(self.texts("user"), ["In the beginning <b>God</b>"])  # text, not markup
        self.say("And then")
        b.until("document.querySelectorAll('.assistant').length === 2 && !document.getElementById('send').disabled")
        if os.environ.get("TENON_PAGE_PICTURE"):
            png = b.call("Page.captureScreenshot", format="png")["data"]
            pathlib.Path(os.environ["TENON_PAGE_PICTURE"]).write_bytes(base64.b64decode(png))
        b.run("document.getElementById('undo').click()")
        self.assertEqual(self.texts("user"), ["In the beginning <b>God</b>"])
        # Stop: what was said stays, and the server computes nothing more.
        b.run("document.getElementById('max_tokens').value = 1500")
        self.say("Once upon a time")
        b.until("document.querySelectorAll('.assistant').length === 2 && document.querySelectorAll('.assistant')[1].textContent.length > 20")
        b.run("document.getElementById('stop').click()")
        b.until("document.getElementById('stats').textContent === 'stopped'")
        self.server.until(lambda: self.server.metric('running{model="demo"}') == 0)
        self.assertLess(len(self.texts("assistant")[1]), 5000)
        # A mistake is shown, and the next message goes its way.
        b.run("document.getElementById('temperature').value = -1")
        self.say("x")
        b.until("document.querySelectorAll('.error').length === 1")
        self.assertIn("temperature", self.texts("error")[0])
        self.assertEqual([e for e in b.said if e.get("entry", {}).get("level") != "verbose" and "400" not in json.dumps(e)], [])  # nothing that the policy kept out

    def test_the_policy(self):
        b = self.b
        b.until("document.getElementById('model')?.value === 'demo'")
        kept_out = "new Promise(done => { document.addEventListener('securitypolicyviolation', e => done(e.effectiveDirective)); %s; setTimeout(() => done(''), 5000) })"
        self.assertIn("script-src", b.run(kept_out % "const s = document.createElement('script'); s.textContent = 'window.bad = 1'; document.body.append(s)"))
        self.assertEqual(b.run(kept_out % "const i = new Image(); i.src = 'http://127.0.0.1:1/x'"), "img-src")
        self.assertEqual(b.run("window.bad || 0"), 0)


if __name__ == "__main__":
    main()
