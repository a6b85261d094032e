# SPDX-License-Identifier: Apache-2.0
"""One mutant after the other: compiled, given to the kit, and what came of it."""
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time

from rows import RowError
from subjects import Compiler

LIMIT = 900  # seconds for one run of the kit
# Asked first, since the kit prints its findings when all cases have ended. A mutant that passes them is given the others.
FIRST = ("abi", "life", "honesty", "memory", "numbers")
FOUND, SURVIVED, SAME, BROKEN, STALE, HUNG = "found", "survived", "same-object", "does-not-compile", "stale", "hung"


class UsageError(Exception):
    pass


def of_families(names):
    """Arguments of `tenon conform` that choose these families of cases."""
    return [w for name in names for w in ("--case", name + "/*")]


class Pulse:
    """Notices that this process stood still: time limits that passed meanwhile say nothing of a plugin."""

    def __init__(self):
        self.stops, self.beat = 0, time.monotonic()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            time.sleep(0.25)
            now = time.monotonic()
            self.stops += now - self.beat > 3
            self.beat = now


class Kit:
    """`tenon conform`, stopped where a case fails."""

    def __init__(self, build, args, nice):
        self.build = build
        self.tenon = os.path.join(build, "runtime/cli/tenon")
        self.worker = os.path.join(build, "runtime/conform/tenon-conform")
        self.args, self.nice, self.pulse = args, nice, Pulse()

    def key(self):
        h = hashlib.sha256(" ".join(self.args).encode())
        for path in [self.tenon, self.worker, os.path.join(self.build, "runtime/libtenon.so.0")]:
            if os.path.exists(path):
                h.update(open(path, "rb").read())
        return h.hexdigest()[:16]

    def run(self, so, more):
        """(outcome, the first case that failed or None, seconds). Again where the machine stood still."""
        for _ in range(5):
            before = self.pulse.stops
            if "--case" in self.args:
                result = self._run(so, more)
            else:
                result = self._run(so, more + of_families(FIRST))
                rest = self._others(so, more) if result[0] == SURVIVED else []
                if rest:
                    last = self._run(so, more + of_families(rest))
                    result = (*last[:2], result[2] + last[2])
            if result[0] == SURVIVED or self.pulse.stops == before:
                break
        return result

    def _command(self, so, more):
        return [self.tenon, "conform", so, "--worker", self.worker, "--fail-fast", *more, *self.args]

    def _others(self, so, more):
        """The families of cases that are not asked first."""
        command = self._command(so, [*more, "--list"])
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=LIMIT)
        names = {m[1] for m in re.finditer(r"^([a-z0-9-]+)/\S", done.stdout, re.M)}
        if not names.issuperset(FIRST[:1]):
            raise UsageError(f"{' '.join(command)} names no cases: {done.stderr.strip()}")
        return sorted(names.difference(FIRST))

    def _run(self, so, more):
        command = self._command(so, more)
        start, first = time.monotonic(), None
        p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                             start_new_session=True, preexec_fn=lambda: os.nice(self.nice))
        late = threading.Timer(LIMIT, lambda: os.killpg(p.pid, signal.SIGKILL))
        late.start()
        last = ""
        for line in p.stdout:
            last = line.strip() or last
            m = re.match(r"FAIL\s+(\S+)", line)
            if m:
                first = m[1]
                break
        took = time.monotonic() - start
        if first:
            self._stop(p)
        code = p.wait()
        late.cancel()
        if first:
            return FOUND, first, took
        if took >= LIMIT:
            return HUNG, None, took
        if code == 2:
            raise UsageError(f"{' '.join(command)}: {last}")
        return (SURVIVED, None, took) if code == 0 else (FOUND, f"exit {code}", took)

    @staticmethod
    def _stop(p):
        """The runner ends its cases when it is told to stop."""
        p.terminate()
        try:
            p.stdout.read()
            p.wait(20)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Score:
    def __init__(self, kit, subjects, include, work, results):
        self.kit, self.subjects, self.work, self.path = kit, subjects, work, results
        self.compiler = Compiler(include, work)
        self.done = json.load(open(results)) if results and os.path.exists(results) else {}
        self.kit_key, self.lock, self.plain = kit.key(), threading.Lock(), {}
        for name, s in subjects.items():
            obj, text = self.compiler.object(s.source, os.path.join(work, "plain-" + name))
            if not obj:
                raise UsageError(f"{name} does not compile:\n{text}")
            self.plain[name] = open(obj, "rb").read()

    def _keep(self, key, result):
        with self.lock:
            self.done[key] = result
            if not self.path:
                return
            with open(self.path + ".new", "w") as f:
                json.dump(self.done, f, indent=0)
            os.replace(self.path + ".new", self.path)

    def _key(self, s, text):
        """Names a result: the kit with its arguments, the subject, its code."""
        return hashlib.sha256(f"{self.kit_key} {s.name} {s.manifest} {text}".encode()).hexdigest()[:24]

    def subject(self, name):
        """{outcome, case, seconds} of the unmutated plugin, which must pass."""
        s, folder = self.subjects[name], os.path.join(self.work, "plain-" + name)
        key = self._key(s, s.source)
        if key in self.done:
            return self.done[key]
        so, text = self.compiler.link(s, folder)
        if not so:
            raise UsageError(f"{name} cannot be linked:\n{text}")
        return self._judge(key, so, s)

    def _judge(self, key, so, s):
        outcome, case, took = self.kit.run(so, s.conform)
        result = {"outcome": outcome, "case": case, "seconds": round(took, 2)}
        self._keep(key, result)
        return result

    def known(self, row):
        """Whether an earlier run of this kit tried the row."""
        s = self.subjects[row.subject]
        try:
            return self._key(s, row.apply(s.source)) in self.done
        except RowError:
            return False

    def one(self, row, compile_only=False):
        """{outcome, case, seconds} of a row."""
        s = self.subjects[row.subject]
        try:
            text = row.apply(s.source)
        except RowError as e:
            return {"outcome": STALE, "case": str(e), "seconds": 0}
        key = self._key(s, text)
        if key in self.done and not compile_only:
            return self.done[key]
        folder = os.path.join(self.work, f"run-{key}")
        try:
            result = self._run(s, text, folder, compile_only)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if not compile_only:
            self._keep(key, result)
        return result

    def _run(self, s, text, folder, compile_only):
        obj, says = self.compiler.object(text, folder)
        so = None
        if obj:
            if open(obj, "rb").read() == self.plain[s.name]:
                return {"outcome": SAME, "case": None, "seconds": 0}
            so, says = self.compiler.link(s, folder)
        if not so:
            return {"outcome": BROKEN, "case": says.split("\n")[0], "seconds": 0}
        if compile_only:
            return {"outcome": "compiles", "case": None, "seconds": 0}
        outcome, case, took = self.kit.run(so, s.conform)
        return {"outcome": outcome, "case": case, "seconds": round(took, 2)}

    def all(self, rows, jobs, tell, compile_only=False):
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            futures = {pool.submit(self.one, r, compile_only): r for r in rows}
            out = {}
            try:
                for f in concurrent.futures.as_completed(futures):
                    out[futures[f].id] = f.result()
                    tell(futures[f], f.result())
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return out
