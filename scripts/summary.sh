#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# summary.sh BUILD: CUnit's own summaries out of the last test run, then one line for all of it.
set -euo pipefail
python3 - "$1" <<'PY'
import json, re, sys
total = {"suites": 0, "tests": 0, "asserts": 0}
counts = {"passed": 0, "failed": 0, "skipped": 0}
for line in open(sys.argv[1] + "/meson-logs/testlog.json"):
    t = json.loads(line)
    result = t["result"]
    counts["passed" if result in ("OK", "EXPECTEDFAIL") else "skipped" if result == "SKIP" else "failed"] += 1
    out = t.get("stdout", "")
    m = re.search(r"Run Summary:.*?(?=\n\s*\n|\Z)", out, re.S)
    name = t["name"]
    if result == "SKIP":
        why = [l for l in (out + "\n" + t.get("stderr", "")).strip().splitlines() if l.strip()]
        print(f"{name}: skipped: {why[-1] if why else 'no reason given'}")
    elif m:
        print(f"{name}:\n{m.group(0).rstrip()}")
    elif result != "OK":
        print(f"{name}: {result}")
print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
sys.exit(counts["failed"] != 0 or counts["passed"] == 0)
PY
