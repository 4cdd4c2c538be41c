#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
# Builds the baselines: build/baselines/jportal-baselines.jar, an agent and a tool. Needs a JDK 17
# (build/jdk, else JAVA_HOME, else that on the PATH) and Debian's libasm-java. Contains the
# interfaces of profilers (profiler/).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=${1:-$root/build/baselines}

. "$root/tests/agent-jar.sh"
agent_jar baselines "$root/profiler/src/jportal/profile"
mkdir -p "$out"
mv "$work/jportal-baselines.jar" "$out/"
echo "baselines: built $out/jportal-baselines.jar"
