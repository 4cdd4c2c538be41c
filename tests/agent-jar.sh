# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
# For the build scripts of the Java agents, which source this file after they set root to the
# repository and here to their own folder. Sets jdk, and work to a folder that is removed at the
# end. Needs Debian's libasm-java, in ASM_DIR or /usr/share/java.
asm_dir=${ASM_DIR:-/usr/share/java}
. "$root/tests/find-jdk.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Makes $work/jportal-NAME.jar of the sources in $here/src and in other folders, and of ASM, which
# it moves apart from an application's.
agent_jar() {  # agent_jar NAME [FOLDER...]
  local jar name=$1 relocate=$root/tests/oracle-agent/build-src/Relocate.java
  shift
  for jar in asm asm-tree asm-commons; do
    [ -e "$asm_dir/$jar.jar" ] || { echo "$name: $asm_dir/$jar.jar is missing; install libasm-java" >&2; exit 2; }
  done
  mkdir -p "$work/classes" "$work/tool" "$work/jar"
  "$jdk/bin/javac" -encoding UTF-8 --release 17 -XDstringConcat=inline -Xlint:all -Werror -d "$work/classes" \
    -cp "$asm_dir/asm.jar:$asm_dir/asm-tree.jar" $(find "$here/src" "$@" -name '*.java')
  "$jdk/bin/javac" -encoding UTF-8 -d "$work/tool" -cp "$asm_dir/asm.jar:$asm_dir/asm-commons.jar" "$relocate"
  "$jdk/bin/java" -cp "$work/tool:$asm_dir/asm.jar:$asm_dir/asm-commons.jar:$asm_dir/asm-tree.jar" Relocate \
    "$work/jar" "$work/classes" "$asm_dir/asm.jar" "$asm_dir/asm-tree.jar"
  "$jdk/bin/jar" --create --file "$work/jportal-$name.jar" --manifest "$here/manifest.mf" -C "$work/jar" .
}
