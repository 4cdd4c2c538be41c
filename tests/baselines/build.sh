#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
# Builds the baselines: build/baselines/jportal-baselines.jar, an agent and a tool. Needs a JDK 17
# (build/jdk, else JAVA_HOME, else that on the PATH) and Debian's libasm-java.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=${1:-$root/build/baselines}
asm_dir=${ASM_DIR:-/usr/share/java}

fail() { echo "baselines: $*" >&2; exit 2; }

. "$root/tests/find-jdk.sh"
for jar in asm asm-tree asm-commons; do
  [ -e "$asm_dir/$jar.jar" ] || fail "$asm_dir/$jar.jar is missing; install libasm-java"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/classes" "$work/tool" "$work/jar" "$out"

"$jdk/bin/javac" -encoding UTF-8 --release 17 -XDstringConcat=inline -Xlint:all -Werror -d "$work/classes" \
  -cp "$asm_dir/asm.jar:$asm_dir/asm-tree.jar" $(find "$here/src" -name '*.java')
# Moves ASM apart from an application's, to the same place as the oracle agent does.
"$jdk/bin/javac" -encoding UTF-8 -d "$work/tool" -cp "$asm_dir/asm.jar:$asm_dir/asm-commons.jar" \
  "$root/tests/oracle-agent/build-src/Relocate.java"
"$jdk/bin/java" -cp "$work/tool:$asm_dir/asm.jar:$asm_dir/asm-commons.jar:$asm_dir/asm-tree.jar" Relocate \
  "$work/jar" "$work/classes" "$asm_dir/asm.jar" "$asm_dir/asm-tree.jar"
"$jdk/bin/jar" --create --file "$work/jportal-baselines.jar" --manifest "$here/manifest.mf" -C "$work/jar" .
mv "$work/jportal-baselines.jar" "$out/"
echo "baselines: built $out/jportal-baselines.jar"
