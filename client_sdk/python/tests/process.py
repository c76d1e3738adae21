"""Scripts in a process of their own, which must end well."""

import os
import subprocess
import sys
import textwrap

SECONDS = 60


def run(pool, script, **environment):
    """Runs the script with `master` set; what it wrote is in what is returned."""
    head = f"import moonpool, os, sys, threading\nmaster = {pool.master!r}\n"
    done = subprocess.run([sys.executable, "-X", "dev", "-c", head + textwrap.dedent(script)],
                          capture_output=True, text=True, timeout=SECONDS,
                          env={**os.environ, **environment})
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done
