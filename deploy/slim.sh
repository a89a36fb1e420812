#!/bin/sh
# Makes an environment smaller that has flinknet-light: takes away the tests and tools of NumPy, a
# backend of zstandard that only PyPy uses, pip, byte code, and debug symbols where there is strip.
#
#   sh deploy/slim.sh ENVIRONMENT
set -eu
packages=$(echo "$1"/lib/python3.*/site-packages)
[ -d "$packages/flinknet" ] || { echo "there is no flinknet in $1" >&2; exit 1; }
find "$packages/numpy" -type d \( -name tests -o -name f2py -o -name distutils \) -prune -exec rm -rf {} +
find "$1" -type d -name __pycache__ -prune -exec rm -rf {} +
rm -rf "$packages"/pip "$packages"/pip-*.dist-info "$packages"/setuptools* "$packages"/pkg_resources
rm -f "$packages"/zstandard/_cffi.*.so
if command -v strip >/dev/null; then
    # not those in *.libs, which were made to be found again by their layout
    find "$packages" -name '*.so' -not -path '*.libs/*' -exec strip --strip-unneeded {} +
fi
