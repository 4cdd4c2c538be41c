#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
# Builds the oracle agent: build/oracle/jportal-oracle.jar and build/oracle/libjportal_oracle.so.
# Needs a JDK 17 (build/jdk, else JAVA_HOME, else that on the PATH), gcc, and Debian's libasm-java.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=${1:-$root/build/oracle}
asm_dir=${ASM_DIR:-/usr/share/java}

fail() { echo "oracle-agent: $*" >&2; exit 2; }

. "$root/tests/find-jdk.sh"
for jar in asm asm-tree asm-commons; do
  [ -e "$asm_dir/$jar.jar" ] || fail "$asm_dir/$jar.jar is missing; install libasm-java"
done
command -v gcc >/dev/null || fail "no gcc; install gcc"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/classes" "$work/tool" "$work/jar" "$out"

"$jdk/bin/javac" -encoding UTF-8 --release 17 -XDstringConcat=inline -Xlint:all -Werror -d "$work/classes" -cp "$asm_dir/asm.jar:$asm_dir/asm-tree.jar" \
  $(find "$here/src" -name '*.java')
"$jdk/bin/javac" -encoding UTF-8 -d "$work/tool" -cp "$asm_dir/asm.jar:$asm_dir/asm-commons.jar" "$here/build-src/Relocate.java"
"$jdk/bin/java" -cp "$work/tool:$asm_dir/asm.jar:$asm_dir/asm-commons.jar:$asm_dir/asm-tree.jar" Relocate \
  "$work/jar" "$work/classes" "$asm_dir/asm.jar" "$asm_dir/asm-tree.jar"
"$jdk/bin/jar" --create --file "$work/jportal-oracle.jar" --manifest "$here/manifest.mf" -C "$work/jar" .
gcc -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -shared -I"$jdk/include" -I"$jdk/include/linux" \
  -o "$work/libjportal_oracle.so" "$here/native/probe.c" -lpthread
mv "$work/jportal-oracle.jar" "$work/libjportal_oracle.so" "$out/"
echo "oracle-agent: built $out/jportal-oracle.jar and libjportal_oracle.so"
