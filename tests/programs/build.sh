#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
# Builds the test programs: programs.jar, examples.jar, workloads.jar, libprograms.so and
# libsteadystart.so in build/programs, and beside them the stacks agent, libjportal_stacks.so, and
# of the baselines the one that counts native methods, libjportal_natives.so, and the profilers,
# libjportal_samplers.so. Needs a JDK 17 (build/jdk, else
# JAVA_HOME, else that on the PATH), gcc and g++, and Debian's libasm-java, ecj, antlr4, fop and
# libsunflow-java.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=${1:-$root/build/programs}
jars=/usr/share/java
asm=${ASM_DIR:-$jars}/asm.jar

fail() { echo "programs: $*" >&2; exit 2; }

. "$root/tests/find-jdk.sh"
[ -e "$asm" ] || fail "$asm is missing; install libasm-java"
command -v gcc >/dev/null || fail "no gcc; install gcc"
command -v g++ >/dev/null || fail "no g++; install g++"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" "$work/tool" "$work/classes" "$work/examples" "$work/workloads"

"$jdk/bin/javac" -encoding UTF-8 --release 17 -g -Xlint:all,-fallthrough,-empty,-finally,-serial,-processing -Werror \
  -d "$work/classes" "$here"/src/programs/*.java
# Their figures were worked out by hand for this very text.
"$jdk/bin/javac" -encoding UTF-8 --release 17 -g -d "$work/examples" "$here"/src/examples/*.java
"$jdk/bin/javac" -encoding UTF-8 --release 17 -d "$work/tool" -cp "$asm" "$here/generator/Generate.java"
"$jdk/bin/java" -cp "$work/tool:$asm" Generate "$work/classes"
workload_path=
for jar in eclipse-jdt-core antlr4 antlr4-runtime fop xmlgraphics-commons sunflow; do
  [ -e "$jars/$jar.jar" ] || fail "$jars/$jar.jar is missing; install ecj, antlr4, fop and libsunflow-java"
  workload_path=$workload_path:$jars/$jar.jar
done
# -path: the manifests of these jars name jars that are not installed.
"$jdk/bin/javac" -encoding UTF-8 --release 17 -g -Xlint:all,-path -Werror -cp "${workload_path#:}" -d "$work/workloads" \
  "$here"/workloads/*.java
gcc -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -shared -I"$jdk/include" -I"$jdk/include/linux" \
  -o "$work/libprograms.so" "$here/native/programs.c" -lpthread
gcc -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -shared -I"$jdk/include" -I"$jdk/include/linux" \
  -o "$work/libsteadystart.so" "$here/native/steadystart.c"
g++ -std=c++17 -O2 -Wall -Wextra -Werror -fPIC -shared -I"$root/tests/native" -I"$jdk/include" -I"$jdk/include/linux" \
  -o "$work/libjportal_stacks.so" "$root/tests/stacks-agent/native/stacks.cpp" -lpthread -ldl
g++ -std=c++17 -O2 -Wall -Wextra -Werror -fPIC -shared -I"$jdk/include" -I"$jdk/include/linux" \
  -o "$work/libjportal_natives.so" "$root/tests/baselines/native/natives.cpp"
g++ -std=c++17 -O2 -Wall -Wextra -Werror -fPIC -shared -I"$root/tests/native" -I"$jdk/include" -I"$jdk/include/linux" \
  -o "$work/libjportal_samplers.so" "$root/tests/baselines/native/samplers.cpp" -lpthread -ldl

# The programs must contain every bytecode of opcodes.txt. javap names wide forms with a suffix.
find "$work/classes" -name '*.class' -not -path '*/many/*' -print0 | xargs -0 "$jdk/bin/javap" -c -p |
  sed -n 's/^ *[0-9]*: \([a-z_0-9]*\).*/\1/p' | sort -u > "$work/used"
missing=$(sort -u "$here/opcodes.txt" | comm -23 - "$work/used" | tr '\n' ' ')
[ -z "$missing" ] || fail "no program has these bytecodes: $missing"

"$jdk/bin/jar" --create --file "$work/programs.jar" -C "$work/classes" .
"$jdk/bin/jar" --create --file "$work/examples.jar" -C "$work/examples" .
"$jdk/bin/jar" --create --file "$work/workloads.jar" -C "$work/workloads" .
mv "$work/programs.jar" "$work/examples.jar" "$work/workloads.jar" "$work/libprograms.so" "$work/libsteadystart.so" \
  "$work/libjportal_stacks.so" "$work/libjportal_natives.so" "$work/libjportal_samplers.so" "$out/"
echo "programs: built $out/programs.jar, examples.jar, workloads.jar, libprograms.so, libsteadystart.so, libjportal_stacks.so, libjportal_natives.so and libjportal_samplers.so"
