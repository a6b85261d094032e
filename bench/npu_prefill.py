#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Virtual time of a prompt on the simulated NPU: npu_prefill.py TENON PLUGINS MODEL [--markdown] [--tokens N] [--chunk C]

For every cost profile and number of pieces in flight: how long the prompt takes on the simulated device's clock, and how
long the device is busy. Both say nothing about this machine: they are the same on every one. Read from the trace of
`tenon trace`, as the docs' table is.
"""
import argparse
import json
import os
import subprocess
import tempfile

PROFILES = ['qnn-2024', 'hmx-2026', 'hmx-2026-fa']
FLIGHT = [1, 2, 4, 0]
PROFILE = """calibration: ${{model}}/calibration.yaml
plugins:
  - {{name: npu-int8-sim, options: {{profile: {profile}, chunk: {chunk}}}}}
  - host
phases: {{prefill: [npu-int8-sim, host], decode: [host]}}
chunks_in_flight: {flight}
bucket: {chunk}
"""


def times(args, folder, profile, flight):
    config, trace, text = (os.path.join(folder, n) for n in ('p.yaml', 'trace.json', 'text'))
    with open(config, 'w') as f:
        f.write(PROFILE.format(profile=profile, chunk=args.chunk, flight=flight))
    with open(text, 'w') as f:
        f.write('the Spirit of God moved upon the face of the waters ' * (args.tokens // 12))
    env = dict(os.environ, TENON_PLUGIN_PATH=os.path.join(args.plugins, 'npu-int8-sim'))
    subprocess.run([args.tenon, 'trace', args.model, '-f', text, '-n', '1', '--temp', '0', '--profile', config, '-o',
                    trace], env=env, check=True, stdout=subprocess.DEVNULL)
    with open(trace) as f:
        events = json.load(f)['traceEvents']
    pid = next(e['pid'] for e in events if e.get('name') == 'process_name' and e['args']['name'] == 'virtual')
    tracks = {e['tid']: e['args']['name'] for e in events if e.get('name') == 'thread_name' and e['pid'] == pid}
    tasks = [e for e in events if e['ph'] == 'X' and e['pid'] == pid]
    span = max(e['ts'] + e['dur'] for e in tasks) - min(e['ts'] for e in tasks)
    busy = {name: sum(e['dur'] for e in tasks if tracks[e['tid']] == name) for name in tracks.values()}
    steps = len({e['args']['step'] for e in tasks})
    return span / 1e3, busy['npu-int8-sim:npu'] / 1e3, busy['npu-int8-sim:cpu'] / 1e3, steps


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('tenon')
    p.add_argument('plugins')
    p.add_argument('model')
    p.add_argument('--tokens', type=int, default=1000)
    p.add_argument('--chunk', type=int, default=256)
    args = p.parse_args()
    print('| costs | pieces | NPU busy | CPU busy | ' + ' | '.join(f'{k or "all"} in flight' for k in FLIGHT) + ' |')
    print('|---' * (len(FLIGHT) + 4) + '|')
    with tempfile.TemporaryDirectory() as folder:
        for profile in PROFILES:
            rows = [times(args, folder, profile, k) for k in FLIGHT]
            print(f'| {profile} | {rows[0][3]} | {rows[0][1]:.2f} | {rows[0][2]:.2f} | '
                  + ' | '.join(f'{r[0]:.2f}' for r in rows) + ' |')


if __name__ == '__main__':
    main()
