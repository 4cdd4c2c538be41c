#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
# Builds the oracle agent: build/oracle/jportal-oracle.jar and build/oracle/libjportal_oracle.so.
# Needs a JDK 17 (build/jdk, else JAVA_HOME, else that on the PATH), gcc, and Debian's libasm-java.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=${1:-$root/build/oracle}

. "$root/tests/agent-jar.sh"
command -v gcc >/dev/null || { echo "oracle-agent: no gcc; install gcc" >&2; exit 2; }
agent_jar oracle
gcc -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -shared -I"$jdk/include" -I"$jdk/include/linux" \
  -o "$work/libjportal_oracle.so" "$here/native/probe.c" -lpthread
mkdir -p "$out"
mv "$work/jportal-oracle.jar" "$work/libjportal_oracle.so" "$out/"
echo "oracle-agent: built $out/jportal-oracle.jar and libjportal_oracle.so"
