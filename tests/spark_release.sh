#!/bin/sh
# Another release of Spark beside the installed one: with DIRECTORY on PYTHONPATH, PySpark is that
# release with its jars. Its sources are taken as they are: to build a wheel of them takes minutes.
#
#   sh tests/spark_release.sh 4.0 DIRECTORY [PIP]
set -eu
version=$1 directory=$2 pip=${3:-pip}
part=$directory.part
rm -rf "$part"
mkdir -p "$part"
"$pip" download --disable-pip-version-check --quiet --no-deps --no-binary pyspark \
    --dest "$part" "pyspark==$version.*"
tar -xzf "$part"/pyspark-*.tar.gz -C "$part" --strip-components 1
rm "$part"/pyspark-*.tar.gz
for name in jars bin sbin; do
    ln -s "../deps/$name" "$part/pyspark/$name"
done
mv "$part" "$directory"
