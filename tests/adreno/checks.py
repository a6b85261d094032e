# SPDX-License-Identifier: Apache-2.0
"""What the scripts of this folder expect, and what failed."""
import os

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEMO = os.path.join(SOURCE, "models", "demo")
failures = []


def expect(ok, what, detail=""):
    print("%s: %s" % ("ok" if ok else "FAILED", what))
    if not ok:
        failures.append(what)
        print(str(detail)[-1500:])
