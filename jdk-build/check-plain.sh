#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
# Shows that the patched tree without --enable-jportal builds a VM without any
# trace of JPortal: no symbol, no string, no flag, no jcmd command.
#
# usage: check-plain.sh [JDK]   (default build/jdk-plain, built by build.sh --without-jportal)
# Exit status: 0 clean, 1 traces found, 2 nothing to check.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jdk=${1:-$ROOT/build/jdk-plain}
libjvm=$jdk/lib/server/libjvm.so
[[ -f $libjvm ]] || { echo "error: no $libjvm; run jdk-build/build.sh --without-jportal" >&2; exit 2; }

passed=0 failed=0
check() {  # check WHAT TRACES: passes when TRACES is empty
  if [[ -z $2 ]]; then
    passed=$((passed + 1)); echo "ok   $1"
  else
    failed=$((failed + 1)); echo "FAIL $1"; head -n 20 <<< "$2" | sed 's/^/     /'
  fi
}
jportal_lines() { grep -i jportal || true; }

symbols=$(nm -C "$libjvm" 2>/dev/null || true)
dynamic=$(nm -CD "$libjvm")
# A stripped library has no symbols to check and would pass.
[[ $(wc -l <<< "$symbols") -gt 10000 ]] || { echo "error: $libjvm has no symbol table to check" >&2; exit 2; }
check "symbols" "$(jportal_lines <<< "$symbols")"
check "dynamic symbols" "$(jportal_lines <<< "$dynamic")"
# The work tree may lie under ~/.cache/jportal and leave its path in __FILE__ strings.
check "strings" "$(strings -a "$libjvm" | sed 's,/[^ ]*/jportal/work-[^/ ]*/,,g' | jportal_lines)"
check "needed libraries" "$(readelf -d "$libjvm" | grep NEEDED | jportal_lines)"
check "flags" "$("$jdk/bin/java" -XX:+UnlockDiagnosticVMOptions -XX:+UnlockExperimentalVMOptions \
  -XX:+PrintFlagsFinal -version 2>/dev/null | jportal_lines)"
if "$jdk/bin/java" -XX:-JPortal -version >/dev/null 2>&1; then
  check "-XX:-JPortal is refused" "the VM accepts the flag"
else
  check "-XX:-JPortal is refused" ""
fi
debian=$ROOT/build/jdk-debian
if [[ -x $debian/bin/java ]]; then
  # SharedBaseAddress is the address of the CDS archive, which differs from run to run.
  names() { "$1/bin/java" -XX:+UnlockDiagnosticVMOptions -XX:+UnlockExperimentalVMOptions \
    -XX:+PrintFlagsFinal -version 2>/dev/null | awk '$3 == "=" && $2 != "SharedBaseAddress" { print $1, $2, $4 }' | sort; }
  check "flags, types and defaults equal Debian's" "$(diff <(names "$debian") <(names "$jdk") || true)"
fi

echo
echo "$passed passed, $failed failed"
((failed == 0))
