#!/bin/sh
# Writes requirements.lock: every package that dm, its extras and its tests need, with exact versions and hashes.
# Run it after a change of the dependencies in pyproject.toml; commit both.
set -eu
cd "$(dirname "$0")/.."
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"${PYTHON:-python3}" -m venv "$tools"
"$tools/bin/pip" --quiet --disable-pip-version-check install 'uv>=0.9,<1'
"$tools/bin/uv" --quiet pip compile pyproject.toml --group dev --extra worker --extra java --extra s3 --universal --python-version 3.11 \
    --generate-hashes --no-annotate --custom-compile-command scripts/lock.sh \
    --output-file requirements.lock "$@"
