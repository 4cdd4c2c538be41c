#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
# Builds build/lib/jportal-replay.jar: the interfaces of profilers, and the program that `jportal
# replay` starts. Needs a JDK 17 (build/jdk, else JAVA_HOME, else that on the PATH).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/.." && pwd)
out=${1:-$root/build/lib}

. "$root/tests/find-jdk.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$jdk/bin/javac" -encoding UTF-8 --release 17 -Xlint:all -Werror -d "$work/classes" $(find "$here/src" -name '*.java')
"$jdk/bin/jar" --create --file "$work/jportal-replay.jar" --main-class jportal.replay.Main -C "$work/classes" .
mkdir -p "$out"
mv "$work/jportal-replay.jar" "$out/"
echo "profiler: built $out/jportal-replay.jar"
