#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
# Runs the tests of profiler/test on the sources of profiler/src.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/.." && pwd)

. "$root/tests/find-jdk.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$jdk/bin/javac" -encoding UTF-8 --release 17 -Xlint:all -Werror -d "$work" $(find "$here/src" "$here/test" -name '*.java')
"$jdk/bin/java" -XX:TieredStopAtLevel=1 -cp "$work" jportal.replay.FormatTest
