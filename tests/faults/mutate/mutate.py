#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The mutation score of `tenon conform`: bugs planted into vendors' plugins, and whether the kit finds them (README.md).

    mutate.py BUILD                          both sets; a run that was stopped goes on where it stood
    mutate.py BUILD --set tuning             one set
    mutate.py BUILD --only ID -v             one row, or several
    mutate.py BUILD --check                  every row applies, compiles and changes the object code; the kit is not run
    mutate.py BUILD --plain                  the subjects without a bug pass
    mutate.py BUILD --so-far                 nothing is run: what earlier runs of this kit found, and of how many rows
    mutate.py BUILD --conform-args --thorough

Of the measured set only totals are printed, but for --show-measured: who reads it for tuning replaces it. Exit status: 0
all was run; 1 with --only, a row that was not found, with --plain or --check, one that did not hold; 2 usage."""
import argparse
import collections
import json
import os
import sys

import rows
import subjects
from score import BROKEN, FOUND, HUNG, SAME, STALE, SURVIVED, Kit, Score, UsageError

BAD = (BROKEN, SAME, STALE)


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("--set", choices=rows.SETS, action="append", help="default: both")
    p.add_argument("--only", metavar="ID", action="append")
    p.add_argument("--subject", action="append")
    p.add_argument("--jobs", type=int, default=1, help="mutants at once")
    p.add_argument("--nice", type=int, default=10)
    p.add_argument("--json", metavar="OUT")
    p.add_argument("--results", metavar="FILE", help="default: BUILD/mutate/results.json")
    p.add_argument("--fresh", action="store_true", help="look at no earlier results and keep none")
    p.add_argument("--check", action="store_true")
    p.add_argument("--plain", action="store_true")
    p.add_argument("--so-far", action="store_true")
    p.add_argument("--show-measured", action="store_true")
    p.add_argument("-v", "--verbose", action="store_true", help="rows that were found, too")
    p.add_argument("--conform-args", nargs=argparse.REMAINDER, default=[], help="the rest goes to tenon conform")
    return p.parse_args()


def chosen(a, which):
    out = rows.load(which)
    if a.subject:
        out = [r for r in out if r.subject in a.subject]
    return [r for r in out if r.id in a.only] if a.only else out


def outcome_of(row, which, result):
    """An equivalent row counts as such where it was not found."""
    equal = rows.equivalents(which)
    if result["outcome"] == SURVIVED and (row.key() in equal or (which == "tuning" and row.id in equal)):
        return "equivalent"
    return result["outcome"]


def totals(which, table):
    """Lines: found / planted per operator, and of what was run. table: (row, outcome)."""
    by = collections.defaultdict(collections.Counter)
    for row, outcome in table:
        by[row.operator][outcome] += 1
    lines, sums = [], collections.Counter()
    for operator in sorted(by):
        c = by[operator]
        sums += c
        planted = sum(c.values()) - c["equivalent"] - sum(c[b] for b in BAD)
        lines.append(f"  {operator:12} {c[FOUND]:3} / {planted}")
    planted = sum(sums.values()) - sums["equivalent"] - sum(sums[b] for b in BAD)
    rest = ", ".join(f"{n} {k}" for k, n in sorted(sums.items()) if k not in (FOUND, SURVIVED))
    percent = 100 * sums[FOUND] / planted if planted else 0
    return lines + [f"{which}: found {sums[FOUND]} of {planted} planted, {percent:.1f} %" + (f" ({rest})" if rest else "")]


def run_plain(score, names):
    bad = 0
    for name in names:
        r = score.subject(name)
        passes = r["outcome"] == SURVIVED
        print(f"{name}: {'passes' if passes else 'fails: ' + str(r['case'])}, {r['seconds']:.1f} s", flush=True)
        bad += not passes
    return bad


def run_set(a, score, which):
    quiet = which == "measured" and not a.show_measured

    def tell(row, r):
        outcome = outcome_of(row, which, r)
        bad = outcome in BAD
        if bad and quiet:
            print(f"a row at {row.where}: {outcome}", flush=True)
        elif not quiet and (bad or a.verbose or outcome not in (FOUND, "compiles")):
            print(f"{outcome:11} {row.id:28} {row.operator:12} {r['seconds']:6.1f} s  {r['case'] or row.says}", flush=True)

    some = sorted(chosen(a, which), key=rows.Row.key)  # mixed: where a run is stopped, what it reached is a sample
    if a.so_far:
        known = [r for r in some if score.known(r)]
        print(f"{which}: {len(known)} of {len(some)} rows were run")
        some = known
    results = score.all(some, a.jobs, tell, a.check)
    table = [(r, outcome_of(r, which, results[r.id])) for r in some]
    return [(r, o, results[r.id]) for r, o in table]


def check_tables():
    """Reasons name rows that exist, and are a tenth at most."""
    for which in rows.SETS:
        known = rows.load(which)
        names = {r.key() for r in known} | ({r.id for r in known} if which == "tuning" else set())
        equal = rows.equivalents(which)
        for name in equal:
            if name not in names:
                raise rows.RowError(f"{which}.equivalent: there is no row {name}")
        if len(equal) * 10 > len(known):
            raise rows.RowError(f"{which}.equivalent: {len(equal)} of {len(known)} rows, more than a tenth")


def check_texts(subjects_by_name):
    """Nearly all rows still fit their subjects; the others are named, so that they are mended or replaced."""
    everything = [r for which in rows.SETS for r in rows.load(which)]
    stale = []
    for r in everything:
        try:
            r.apply(subjects_by_name[r.subject].source)
        except rows.RowError as e:
            stale.append(str(e))
    if len(stale) * 20 > len(everything):
        raise rows.RowError(f"{len(stale)} of {len(everything)} rows do not fit any more, first {stale[0]}")


def main():
    a = parse_args()
    build = os.path.abspath(a.build)
    work = os.path.join(build, "mutate")
    os.makedirs(work, exist_ok=True)
    check_tables()
    kit = Kit(build, ["--seed", "1", *a.conform_args], a.nice)
    score = Score(kit, subjects.load(kit.tenon, work), os.path.join(subjects.ROOT, "include"), work,
                  None if a.fresh else os.path.abspath(a.results or os.path.join(work, "results.json")))
    check_texts(score.subjects)
    if a.plain:
        return min(1, run_plain(score, a.subject or score.subjects))
    if not a.check and not a.so_far and run_plain(score, a.subject or score.subjects):
        raise UsageError("a plugin without a bug fails: nothing can be said of those with one")
    report, bad = {}, 0
    for which in a.set or rows.SETS:
        table = run_set(a, score, which)
        bad += sum(o in BAD for _, o, _ in table) if a.check else sum(o != FOUND for _, o, _ in table) if a.only else 0
        if a.check:
            print(f"{which}: {sum(o == 'compiles' for _, o, _ in table)} of {len(table)} rows hold")
        elif table:
            print("\n".join(totals(which, [(r, o) for r, o, _ in table])), flush=True)
        if which == "tuning" or a.show_measured:
            report[which] = {r.id: {"operator": r.operator, "subject": r.subject, **x, "outcome": o} for r, o, x in table}
        else:
            report[which] = {"totals": totals(which, [(r, o) for r, o, _ in table])}
    if a.json:
        with open(a.json, "w") as f:
            json.dump(report, f, indent=1)
    return min(1, bad)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (rows.RowError, UsageError) as e:
        sys.exit(f"mutate.py: {e}")
