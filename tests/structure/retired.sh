#!/bin/sh
# No retired name is left in what people read: retired.sh source-folder
set -eu
cd "$1"
status=0
for name in $(sed 's/#.*//; s/ .*//' tests/structure/retired.txt); do
    found=$(grep -rnwI "$name" README.md README.ko.md ARCHITECTURE.md CONTRIBUTING.md Makefile CMakeLists.txt bench cmake docs examples \
        include scripts src tests tools | grep -v '^tests/structure/retired.txt:\|^docs/hoduscript.md:\|/results.json:' |
        grep -v '^src/script/file_tables.c:.*renamed\[\]\|^tests/script/test_file.c:.*/\* Of version 1' || true)
    [ -z "$found" ] || { echo "$found"; echo "$name is retired: see tests/structure/retired.txt"; status=1; }
done
exit $status
