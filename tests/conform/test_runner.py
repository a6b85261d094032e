#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The runner of `tenon conform` against a worker that does what plugins do to workers.

test_runner.py TENON PLUGIN.so TENON-CONFORM; the plugin is only looked at, never loaded.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET

TENON, PLUGIN, CONFORM = sys.argv[1:4]

WORKER = r'''#!%s
import json, os, signal, sys, time
out = os.fdopen(3, "w")
def say(**k):
    out.write(json.dumps(k) + "\n")
    out.flush()
names = ["a/pass", "a/fail", "a/skip", "b/crash", "b/exit", "b/status", "b/hang", "b/sanitizer", "b/closed", "c/seed"]
if os.environ.get("SLOW"):
    names = [f"d/slow/{i}" for i in range(9)] + ["generated/graphs/1"]
if os.environ.get("ORDER"):
    names = os.environ["ORDER"].split()
if sys.argv[1] == "list":
    if os.environ.get("DIES") and "--blind" not in sys.argv:
        os.kill(os.getpid(), signal.SIGILL)
    if os.environ.get("TALKS") and "--blind" not in sys.argv:
        for _ in range(int(os.environ["TALKS"])):
            out.write(" " * (1 << 20))
    why = os.environ.get("WHY")
    together = 8 if os.environ.get("TOGETHER") else 0
    cases = [{"name": n, "levels": 31 if n[0] == "a" else 2, "flags": (4 if n[0] == "a" else 0) | together, "timeout_ms": 6000}
             for n in names]
    cases.append({"name": "levels/matmul/x", "levels": 4, "flags": 1, "timeout_ms": 0})
    json.dump({"listing": {"loaded": not os.environ.get("UNLOADED"), "why": why}, "cases": cases}, out)
    out.write("\n")
    sys.exit(0)
asked = [a for a in sys.argv[1:] if a in names or a.startswith("levels/")]
if os.environ.get("STARTED"):
    with open(os.environ["STARTED"], "a") as f:
        f.write(" ".join(asked) + "\n")
for case in asked:
    if case.startswith("d/slow"):
        time.sleep(1)
        say(end="pass")
    elif case == "a/fail":
        say(fail="two is three <&>"); say(note="of interest"); say(end="fail")
        break
    elif case == "a/skip":
        say(skip="not here"); say(end="skip")
    elif case == "b/crash":
        print("last words", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    elif case == "b/exit":
        os._exit(0)
    elif case == "b/status":
        say(end="pass"); os._exit(7)
    elif case == "b/hang":
        time.sleep(100)
    elif case == "b/sanitizer":
        print("==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x1", file=sys.stderr); say(end="pass")
    elif case == "b/closed":
        os.close(3); time.sleep(100)
    elif case == "e/late" and asked != [case]:
        say(fail="only after others"); say(end="fail")
        break
    else:
        say(note=sys.argv[sys.argv.index("--seed") + 1]); say(end="pass")
''' % sys.executable


class Runner(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        cls.worker = os.path.join(cls.dir.name, 'worker')
        with open(cls.worker, 'w') as f:
            f.write(WORKER)
        os.chmod(cls.worker, 0o755)

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def run_kit(self, *args, env=None, plugin=PLUGIN):
        return subprocess.run([TENON, 'conform', plugin, '--worker', self.worker, *args], capture_output=True, text=True,
                              env={**os.environ, **(env or {})}, timeout=60)

    def report(self, *args, **kw):
        p = self.run_kit('--format', 'json', '--jobs', '4', *args, **kw)
        return p.returncode, json.loads(p.stdout)

    def judged(self, env=None):
        rc, r = self.report('--seed', '5', '--patience', '1', env=env)
        by = {c['name']: c for c in r['cases']}
        self.assertEqual(rc, 1)
        self.assertEqual((r['passed'], r['failed'], r['skipped']), (2, 7, 1))
        says = {'a/fail': 'two is three <&>', 'b/crash': 'ended by SIGSEGV', 'b/exit': 'something called exit',
                'b/status': 'ended with status 7', 'b/hang': 'took longer than its limit',
                'b/sanitizer': 'heap-use-after-free', 'b/closed': 'took longer than its limit'}
        for name, text in says.items():
            self.assertEqual(by[name]['verdict'], 'fail', name)
            self.assertTrue(any(text in f for f in by[name]['findings']), (name, by[name]['findings']))
        self.assertIn('last words', by['b/crash']['output'])
        self.assertEqual(by['a/skip']['skip'], 'not here')
        self.assertNotIn('levels/matmul/x', by)
        return by

    def test_judgement(self):
        self.judged()

    def together(self, order=None):
        """The environment of cases that may share a process, and the file that names those of each process."""
        started = os.path.join(self.dir.name, self.id())
        return {'TOGETHER': '1', 'STARTED': started, **({'ORDER': order} if order else {})}, started

    def test_together(self):
        env, started = self.together()
        self.judged(env)
        with open(started) as f:
            asked = [line.split() for line in f]
        self.assertIn('a/pass a/fail a/skip b/crash b/exit b/status b/hang b/sanitizer'.split(), asked)
        for name in 'a/fail b/crash b/exit b/status b/hang b/sanitizer b/closed'.split():
            self.assertEqual(asked.count([name]), 1, name)  # a verdict that is not a pass is that of the case alone

    def test_together_in_one_process(self):
        names = [f'c/{i}' for i in range(20)]
        env, started = self.together(' '.join(names))
        rc, r = self.report('--seed', '5', env=env)
        self.assertEqual((rc, r['passed']), (0, 20))
        self.assertEqual([c['notes'] for c in r['cases']], [['5']] * 20)
        with open(started) as f:
            self.assertEqual(sorted(f.read().split('\n')[:-1]), sorted(' '.join(names[i:i + 8]) for i in (0, 8, 16)))

    def test_together_only_after_others(self):
        env, _ = self.together('c/0 e/late c/1')
        rc, r = self.report('--seed', '5', env=env)
        self.assertEqual((rc, r['passed']), (0, 3))
        self.assertIn('only after others', r['cases'][1]['notes'][0])

    def test_together_ends_badly(self):
        env, started = self.together('c/0 c/1 b/status')
        rc, r = self.report('--seed', '5', env=env)
        self.assertEqual((rc, r['passed'], r['failed']), (1, 2, 1))
        with open(started) as f:  # whose fault a bad end is nobody knows
            self.assertEqual(sorted(f.read().split('\n')[:-1]), ['b/status', 'c/0', 'c/0 c/1 b/status', 'c/1'])

    def test_seed_and_glob(self):
        rc, r = self.report('--case', 'c/*', '--seed', '77')
        self.assertEqual((rc, len(r['cases']), r['seed']), (0, 1, 77))
        self.assertEqual(r['cases'][0]['notes'], ['77'])
        rc, r = self.report('--case', 'c/se?d')
        self.assertEqual(r['cases'][0]['notes'], [str(r['seed'])])

    def test_minutes(self):
        """Random graphs have the second half, and what was not asked for want of time is counted."""
        p = self.run_kit('--minutes', '0.1', '--jobs', '1', '--verbose', env={'SLOW': '1'})
        self.assertEqual(p.returncode, 0, p.stdout)
        self.assertRegex(p.stdout, r'pass +generated/graphs/1')
        self.assertRegex(p.stdout, r'skip +d/slow/8')
        self.assertRegex(p.stdout, r'\n[1-6] cases were not asked because the time of --minutes was up')

    def test_replay_is_said(self):
        p = self.run_kit('--case', 'a/fail', '--seed', '9', '--option', "k=it's v")
        self.assertIn("--option 'k=it'\\''s v' --case a/fail --seed 9", p.stdout)
        p = self.run_kit('--case', 'a/fail', '--seed', '9', '--profile', 'host', '--plugin', 'host')
        self.assertIn(" --profile host --plugin host --case a/fail", p.stdout)

    def test_replay_runs_nothing_else(self):
        rc, r = self.report('--replay', self.dir.name)
        self.assertEqual((rc, r['cases']), (1, []))
        rc, r = self.report('--replay', self.dir.name, '--case', 'c/*')  # as "again:" says it
        self.assertEqual((rc, len(r['cases'])), (0, 1))

    def test_levels(self):
        rc, r = self.report('--level', 'matmul')
        self.assertEqual([c['name'] for c in r['cases']], ['a/pass', 'a/fail', 'a/skip', 'levels/matmul/x'])
        self.assertEqual(self.run_kit('--level', 'everything').returncode, 2)

    def test_nothing_ran(self):
        p = self.run_kit('--case', 'no/such/*')
        self.assertEqual(p.returncode, 1)
        self.assertIn('0 cases ran', p.stderr)
        self.assertEqual(self.run_kit('--case', 'a/skip').returncode, 1)

    def test_list_dies(self):
        rc, r = self.report('--case', 'life/list', '--case', 'a/pass', env={'DIES': '1'})
        self.assertEqual(rc, 1)
        first = r['cases'][0]
        self.assertEqual((first['name'], first['verdict']), ('life/list', 'fail'))
        self.assertIn('SIGILL', first['findings'][0])

    def test_list_without_end(self):
        """What a plugin makes of the listing is kept in pieces: 300 MiB cost the runner little."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        rc, r = self.report('--case', 'life/list', '--case', 'a/pass', env={'TALKS': '300'})
        after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.assertLess(after, max(before, 128 << 10))
        self.assertEqual([(c['name'], c['verdict']) for c in r['cases']], [('a/pass', 'pass')])

    def test_bound_of_listing(self):
        """The process of a case reads at most 64 MiB of what was listed, and nothing of a file above that."""
        path = os.path.join(self.dir.name, 'listing')
        for size, says in ((64 << 20, 'not valid JSON'), ((64 << 20) + 1, 'at most')):
            with open(path, 'w') as f:
                f.truncate(size)
            p = subprocess.run(['sh', '-c', 'exec "$@" 3>/dev/null', 'sh', CONFORM, 'case', 'abi/manifest', '--listing',
                                path, '--seed', '1', '--plugin', PLUGIN], capture_output=True, text=True, timeout=60)
            self.assertEqual(p.returncode, 2)
            self.assertIn('no listing: ', p.stderr)
            self.assertIn(says, p.stderr)

    def test_model_that_is_no_language_model(self):
        """Nothing that the plugin did: not asked, and the reason says what asks such a model."""
        try:
            from onnx import TensorProto, helper, save
        except ImportError:
            self.skipTest('no onnx')
        f = TensorProto.FLOAT
        graph = helper.make_graph([helper.make_node('Relu', ['x'], ['y'])], 'g', [helper.make_tensor_value_info('x', f, [1, 4])],
                                  [helper.make_tensor_value_info('y', f, [1, 4])])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 13)], ir_version=8),
             os.path.join(self.dir.name, 'model.onnx'))
        p = subprocess.run([TENON, 'conform', PLUGIN, '--worker', CONFORM, '--case', 'honesty/model', '--model', self.dir.name,
                            '--format', 'json'], capture_output=True, text=True, timeout=60)
        case = json.loads(p.stdout)['cases'][0]
        self.assertEqual((case['name'], case['verdict']), ('honesty/model', 'skip'))
        self.assertIn('tenon verify MODEL', json.dumps(case))

    def test_not_loaded(self):
        p = self.run_kit('--case', 'a/pass', env={'UNLOADED': '1', 'WHY': 'entry: no board'})
        self.assertEqual(p.returncode, 5)
        self.assertIn('no board', p.stderr)

    def test_no_device(self):
        rc, r = self.report('--case', '*/pass', '--case', 'b/*', env={'WHY': 'enumerate: no board'})
        by = {c['name']: c['verdict'] for c in r['cases']}
        self.assertEqual((rc, by['a/pass'], by['b/crash']), (0, 'pass', 'skip'))

    def test_no_device_at_level(self):
        """A level asks for claims: without a device there are none, and its cases are asked, which fail then."""
        rc, r = self.report('--level', 'matmul', '--case', 'levels/*', env={'WHY': 'enumerate: no board'})
        self.assertEqual([(c['name'], c['verdict']) for c in r['cases']], [('levels/matmul/x', 'pass')])
        rc, r = self.report('--level', 'matmul', '--case', 'levels/*', env={'WHY': 'entry: no board', 'UNLOADED': '1'})
        self.assertEqual((rc, r['cases'][0]['verdict']), (5, 'skip'))

    def test_device_that_is_not_there(self):
        p = self.run_kit('--case', 'a/pass', '--device', '0', env={'WHY': 'enumerate: no board'})
        self.assertEqual(p.returncode, 5)
        self.assertIn('--device 0: enumerate: no board', p.stderr)
        self.assertEqual(self.run_kit('--case', 'a/pass', '--device', '0').returncode, 0)

    def test_no_plugin(self):
        self.assertEqual(self.run_kit(plugin=TENON).returncode, 3)
        self.assertEqual(self.run_kit(plugin=__file__).returncode, 3)
        self.assertEqual(self.run_kit(plugin='/no/such/file.so').returncode, 3)
        self.assertEqual(self.run_kit('--seed', 'x').returncode, 2)
        self.assertEqual(self.run_kit('--option', 'x').returncode, 2)

    def test_junit(self):
        path = os.path.join(self.dir.name, 'out.xml')
        self.run_kit('--case', 'a/*', '--junit', path, '--seed', '3')
        root = ET.parse(path).getroot()
        self.assertEqual((root.get('tests'), root.get('failures'), root.get('skipped')), ('3', '1', '1'))
        failure = root.find('.//testcase[@name="a/fail"]/failure')
        self.assertEqual(failure.get('message'), 'two is three <&>')
        self.assertIn('--seed 3', failure.text)

    def test_list(self):
        p = self.run_kit('--list', '--case', 'a/*')
        self.assertEqual((p.returncode, p.stdout.split()), (0, ['a/pass', 'a/fail', 'a/skip']))


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
