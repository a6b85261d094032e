#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# summary.sh BUILD: CUnit's own summaries out of the last test run, the last lines of each test that failed, and one line for all.
set -euo pipefail
python3 - "$1" <<'PY'
import json, re, sys
counts = {"passed": 0, "failed": 0, "skipped": 0}
failed = []
for line in open(sys.argv[1] + "/meson-logs/testlog.json"):
    t = json.loads(line)
    result = t["result"]
    counts["passed" if result in ("OK", "EXPECTEDFAIL") else "skipped" if result == "SKIP" else "failed"] += 1
    out = t.get("stdout", "")
    m = re.search(r"Run Summary:.*?(?=\n\s*\n|\Z)", out, re.S)
    name = t["name"]
    lines = [l for l in (out + "\n" + t.get("stderr", "")).strip().splitlines() if l.strip()]
    if result not in ("OK", "EXPECTEDFAIL", "SKIP"):
        failed.append((name, result, lines))
    if result == "SKIP":
        print(f"{name}: skipped: {lines[-1] if lines else 'no reason given'}")
    elif m:
        print(f"{name}:\n{m.group(0).rstrip()}")
for name, result, lines in failed[:8]:  # what a reader of a log's end has to know
    print(f"---- {name}: {result}; its last lines:")
    for l in lines[-16:]:
        print("  " + l[:240])
for name, result, _ in failed[8:]:
    print(f"---- {name}: {result}")
print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
sys.exit(counts["failed"] != 0 or counts["passed"] == 0)
PY
