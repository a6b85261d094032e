# SPDX-License-Identifier: Apache-2.0
"""A `tenon serve` of the build, and requests to it."""
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
from common import BUILD, DEMO, EMULATOR, SOURCE, TENON, Case, has_asan, main  # noqa: E402,F401


class Server:
    """Listens when it is made; address and port are known then."""

    def __init__(self, *args, cache, env=None, models=(DEMO,), profile="host"):
        e = dict(os.environ, TENON_PLUGIN_PATH=str(BUILD / "plugins/cpu-avx2-lut"), TENON_PROFILE_PATH=str(SOURCE / "configs"),
                 TENON_CACHE_DIR=str(cache))
        e.pop("TENON_API_KEY", None)
        e.update(env or {})
        self.said = ""
        self.p = subprocess.Popen([*EMULATOR, TENON, "serve", *map(str, models), "--profile", profile, "--port", "0", *map(str, args)],
                                  stderr=subprocess.PIPE, text=True, env=e)
        for line in self.p.stderr:
            self.said += line
            m = re.search(r"listening on http://(\S+):(\d+)", line)
            if m:
                self.host, self.port = m.group(1).strip("[]"), int(m.group(2))
                return
        raise RuntimeError(f"the server did not start: {self.p.wait()}\n{self.said}")

    @property
    def url(self):
        return f"http://{self.host}:{self.port}"

    def connect(self, timeout=120):
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def ask(self, path, body=None, method=None, headers=None, raw=None):
        """Status and JSON, or text, of one request."""
        c = self.connect()
        h = {"Content-Type": "application/json", **(headers or {})} if body is not None or raw is not None else headers or {}
        data = raw if raw is not None else None if body is None else json.dumps(body)
        c.request(method or ("GET" if data is None else "POST"), path, data, h)
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        return r.status, json.loads(text) if r.headers["Content-Type"].startswith("application/json") else text

    def stream(self, path, body, timeout=120):
        """The events of a stream, as they come; the last is "[DONE]"."""
        c = self.connect(timeout)
        c.request("POST", path, json.dumps(dict(body, stream=True)), {"Content-Type": "application/json"})
        r = c.getresponse()
        assert r.status == 200, r.read()
        try:
            for line in r:
                line = line.decode().strip()
                if line.startswith("data: "):
                    yield line[6:] if line == "data: [DONE]" else json.loads(line[6:])
        finally:
            r.close()
            c.close()

    def metric(self, name):
        return float(re.search(rf"^tenon_{re.escape(name)} (\S+)$", self.ask("/metrics")[1], re.M).group(1))

    def until(self, what, seconds=30):
        end = time.time() + seconds
        while not what():
            if time.time() > end:
                raise TimeoutError
            time.sleep(0.02)

    def stop(self, sig=signal.SIGTERM, seconds=60):
        """The exit code."""
        if sig and self.p.poll() is None:
            self.p.send_signal(sig)
        try:
            _, rest = self.p.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.p.kill()
            raise
        self.said += rest or ""
        return self.p.returncode


    def close(self):
        if self.p.poll() is None:
            self.p.kill()
            self.p.wait()
        self.p.stderr.close()


class Serving(Case):
    """One server for all tests of a class."""
    ARGS = ()
    KW = {}

    @classmethod
    def setUpClass(cls):
        import tempfile
        cls.shared = tempfile.TemporaryDirectory()
        cls.server = Server(*cls.ARGS, cache=cls.shared.name, **cls.KW)

    @classmethod
    def tearDownClass(cls):
        rc = cls.server.stop()
        cls.shared.cleanup()
        assert rc == 0, f"exit code {rc}\n{cls.server.said}"
        assert "Sanitizer" not in cls.server.said and "runtime error" not in cls.server.said, cls.server.said

    def refused(self, status, param, path, body=None, words="", **kw):
        got, j = self.server.ask(path, body, **kw)
        self.assertEqual(got, status, j)
        self.assertEqual(set(j), {"error"})
        self.assertEqual(j["error"]["param"], param, j)
        self.assertIn(words, j["error"]["message"])
        return j["error"]
