#!/bin/bash
# `pip install .` in a clean virtual environment, the import on its own, and the Python example of
# README.md, pasted as it is, against a running pool: it must print what README.md says, also when it
# is run again. Figures are the last line, as JSON. Needs python3-venv and PyPI (the build backend).
#
#   tests/scenarios/python_example.sh [BUILD_DIR]
set -eu
. "$(dirname "$0")/run.sh" "$@"
need bin/moonpool
unset PYTHONPATH
folder=$(mktemp -d) pool=
end() {
  if [ -n "$pool" ]; then kill -INT "$pool" 2>/dev/null && wait "$pool" || true; fi
  rm -rf "$folder"
}
trap end EXIT

/usr/bin/python3 -m venv "$folder/env" || exit 2
begin=$SECONDS
if ! "$folder/env/bin/pip" install --quiet --disable-pip-version-check . >"$folder/pip" 2>&1; then
  cat "$folder/pip" >&2
  echo "python_example: pip install . failed" >&2
  exit 1
fi
install_seconds=$((SECONDS - begin))
(cd / && "$folder/env/bin/python" -c "import moonpool; print(moonpool.__version__)") >"$folder/version"

# The block of that language behind the heading, and the next one of text.
block() { sed -n '/^## From Python/,/^## /p' README.md | sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" | sed '1d;$d'; }
block python >"$folder/example.py"
block text >"$folder/expected"

"$build/bin/moonpool" dev --nodes 1 --dram 128MiB >"$folder/out" 2>"$folder/log" &
pool=$!
master= deadline=$((SECONDS + 30))
until master=$(sed -n 's/^ready: --master \([^ ]*\).*/\1/p' "$folder/out") && [ -n "$master" ]; do
  if ! kill -0 "$pool" 2>/dev/null || [ $SECONDS -ge $deadline ]; then
    cat "$folder/log" >&2
    echo "python_example: the pool did not become ready" >&2
    exit 2
  fi
  sleep 0.1
done

ok=true
for run in first second; do
  (cd "$folder" && MOONPOOL_MASTER=$master env/bin/python example.py) >"$folder/printed" || ok=false
  diff --label "what README.md says" --label "the $run run" -u "$folder/expected" "$folder/printed" >&2 ||
    ok=false
done
printf '{"scenario": "python_example", "version": "%s", "pip_install_seconds": %d, "lines": %d, "ok": %s}\n' \
  "$(cat "$folder/version")" $install_seconds "$(wc -l <"$folder/printed")" $ok
[ $ok = true ]
