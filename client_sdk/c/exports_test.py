#!/usr/bin/env python3
"""The library shows what the header declares, no more and no less, under its soname.

    exports_test.py HEADER LIBRARY SONAME
"""

import re
import subprocess
import sys


def declared(header):
    """Names of the functions of the header."""
    with open(header, encoding="utf-8") as file:
        return set(re.findall(r"MOONPOOL_API\b[^;(]*?\b(moonpool_\w+)\(", file.read()))


def exported(library):
    """Names of the symbols that others can see; that of the version itself aside."""
    listing = subprocess.run(
        ["nm", "--dynamic", "--defined-only", library], check=True, capture_output=True, text=True)
    rows = [line.split() for line in listing.stdout.splitlines()]
    return {name.split("@")[0] for _, kind, name in rows if kind != "A"}


def main(header, library, soname):
    wanted, found = declared(header), exported(library)
    dynamic = subprocess.run(
        ["readelf", "--dynamic", "--wide", library], check=True, capture_output=True, text=True)
    complaints = [f"declared and not exported: {name}" for name in sorted(wanted - found)]
    complaints += [f"exported and not declared: {name}" for name in sorted(found - wanted)]
    if f"soname: [{soname}]" not in dynamic.stdout:
        complaints.append(f"its soname is not {soname}")
    if len(wanted) < 30:
        complaints.append(f"the header seems to declare {len(wanted)} functions only")
    print("\n".join(complaints) or f"{len(wanted)} functions, soname {soname}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
