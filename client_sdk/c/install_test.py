#!/usr/bin/env python3
"""What `cmake --install` puts somewhere is enough to build a program and to start it.

Installs into a scratch folder, compiles the example with what pkg-config says, and runs it without
arguments, which it calls wrong usage: it was linked, and found its library.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile


def run(command, **keywords):
    return subprocess.run(command, check=True, capture_output=True, text=True, **keywords).stdout


def check(options, prefix):
    run(["cmake", "--install", options.build, "--component", "c", "--prefix", prefix])
    library = os.path.join(prefix, options.libdir)
    program = os.path.join(prefix, "program")
    environment = dict(os.environ, PKG_CONFIG_PATH=os.path.join(library, "pkgconfig"),
                       LD_LIBRARY_PATH=library)
    flags = run(["pkg-config", "--cflags", "--libs", "moonpool"], env=environment).split()
    run([options.compiler, "-std=c99", "-pedantic", "-Werror", options.program, "-o", program,
         *flags])
    ran = subprocess.run([program], capture_output=True, text=True, env=environment, check=False)
    print(ran.stderr)
    return ran.returncode == 2 and ran.stderr.startswith("usage: ")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="the build folder")
    parser.add_argument("--libdir", required=True, help="where libraries go, under the prefix")
    parser.add_argument("--compiler", required=True, help="of C")
    parser.add_argument("--program", required=True, help="the example's source")
    options = parser.parse_args()
    prefix = tempfile.mkdtemp(prefix="moonpool-install-")
    try:
        return 0 if check(options, prefix) else 1
    except subprocess.CalledProcessError as failed:
        print(failed.stdout, failed.stderr, sep="\n")
        return 1
    finally:
        shutil.rmtree(prefix)


if __name__ == "__main__":
    sys.exit(main())
