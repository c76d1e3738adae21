"""Whether the pool is much slower than it was: the figures of `moonpool bench`, with wide margins.

    guard.py BUILD_DIR [--margin 3] [--objects 300000]
    guard.py --json FILE [--margin 3]        judge a run that was written with `bench --json FILE`

Runs the bench for a minute and looks at each ratio that has a bound: one that misses it by more than
the margin (a third of what it should at least be, three times what it should at most be) fails, after a
second and longer look at it alone. Only ratios within one run are judged, no times, and machines differ:
this finds what has become several times slower, and nothing else. bench/README.md says what the
figures are.

Exit codes: 0 ok, 1 a figure is far from its bound, 2 wrong usage or no run
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

# Plain numbers of one machine: times, and what depends on how fast its processors are.
NOT_A_RATIO = ("_us", "_per_s", "cpu_seconds_per_gb")
# 1 - a ratio: a share of it is no margin.
SHARES = {"checksum_cost_tcp_1m": 0.5}
# One time slice of somebody else in a hundred calls: the margin of these is wider.
TAILS = ("locate_p99_vs_p50",)
TAIL_MARGIN = 10


def allowed(name: str, bound: str, margin: float) -> tuple[str, float]:
    """(">=" or "<=", the number that it must keep)."""
    sense, number = bound.split()
    if name in SHARES:
        return sense, SHARES[name]
    if name.startswith(TAILS):
        margin *= TAIL_MARGIN
    return sense, float(number) / margin if sense == ">=" else float(number) * margin


def judge(run: dict, margin: float) -> list[dict]:
    """Every ratio that has a bound, with what it may be."""
    verdicts = []
    for name, bound in run["ratio_bounds"].items():
        if name.endswith(NOT_A_RATIO) or name in NOT_A_RATIO:
            continue
        sense, limit = allowed(name, bound, margin)
        value = run["ratios"][name]
        is_kept = value >= limit if sense == ">=" else value <= limit
        verdicts.append({"name": name, "value": value, "bound": bound,
                         "allowed": f"{sense} {limit:.3g}", "kept": is_kept})
    return verdicts


def measure(build: pathlib.Path, objects: int, only: list[str], longer: bool) -> dict:
    with tempfile.TemporaryDirectory(prefix="moonpool-guard-") as folder:
        result = pathlib.Path(folder, "bench.json")
        command = [str(build / "bin/moonpool"), "bench", "--rounds", "5" if longer else "3",
                   "--seconds", "0.3" if longer else "0.1", "--objects", str(objects),
                   "--json", str(result)]
        if only:
            command += ["--only", *only]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads(result.read_text(encoding="utf-8"))


def show(verdicts: list[dict]) -> None:
    print(f"{'figure':<36} {'measured':>9}  {'bound':<9} {'allowed':<9} verdict")
    for each in verdicts:
        print(f"{each['name']:<36} {each['value']:>9.3g}  {each['bound']:<9} "
              f"{each['allowed']:<9} {'ok' if each['kept'] else 'FAR OFF'}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path, nargs="?", default="build/release",
                        help="[build/release]")
    parser.add_argument("--json", type=pathlib.Path, help="a run to judge; none is made")
    parser.add_argument("--margin", type=float, default=3.0, help="[3]")
    parser.add_argument("--objects", type=int, default=300_000, help="of suite scale [300000]")
    args = parser.parse_args()
    if args.margin < 1:
        parser.error("--margin: 1 or more; with less a bound that is kept would fail")
    try:
        run = (json.loads(args.json.read_text(encoding="utf-8")) if args.json
               else measure(args.build, args.objects, [], longer=False))
        verdicts = judge(run, args.margin)
        show(verdicts)
        far = [each["name"] for each in verdicts if not each["kept"]]
        if far and not args.json:
            print(f"a second look at {', '.join(far)}")
            verdicts = [each for each in judge(measure(args.build, args.objects, far, longer=True),
                                               args.margin) if each["name"] in far]
            show(verdicts)
            far = [each["name"] for each in verdicts if not each["kept"]]
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
        print(f"guard: no run to judge: {error}", file=sys.stderr)
        return 2
    if far:
        print(f"guard: far from their bounds: {', '.join(far)}", file=sys.stderr)
    return 1 if far else 0


if __name__ == "__main__":
    sys.exit(main())
