#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
# Builds the peer: build/peer/jportal-peer.jar. Needs a JDK 17 (build/jdk, else JAVA_HOME, else that
# on the PATH) and Debian's libasm-java. The jar's manifest names ASM's jars.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=${1:-$root/build/peer}
asm_dir=${ASM_DIR:-/usr/share/java}

fail() { echo "peer: $*" >&2; exit 2; }

. "$root/tests/find-jdk.sh"
path=
for jar in asm asm-tree asm-analysis; do
  [ -e "$asm_dir/$jar.jar" ] || fail "$asm_dir/$jar.jar is missing; install libasm-java"
  path="$path $asm_dir/$jar.jar"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/classes" "$out"
# -path: the manifests of these jars may name jars that are not installed.
"$jdk/bin/javac" -encoding UTF-8 --release 17 -Xlint:all,-path -Werror -d "$work/classes" -cp "$(tr ' ' : <<<"${path# }")" \
  $(find "$here/src" -name '*.java')
{
  echo "Main-Class: jportal.peer.Peer"
  echo "Class-Path: "
  for jar in $path; do echo "  file:$jar"; done
} > "$work/manifest"
"$jdk/bin/jar" --create --file "$work/jportal-peer.jar" --manifest "$work/manifest" -C "$work/classes" .
mv "$work/jportal-peer.jar" "$out/"
echo "peer: built $out/jportal-peer.jar"
