# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
# Sets jdk to the JDK that compiles the Java sources of the tests: build/jdk, else JAVA_HOME, else
# the JDK of the javac on the PATH. Scripts source this file after they set root to the repository.
if [ -x "$root/build/jdk/bin/javac" ]; then
  jdk=$root/build/jdk
elif [ -n "${JAVA_HOME:-}" ]; then
  jdk=$JAVA_HOME
elif command -v javac >/dev/null; then
  jdk=$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")
else
  echo "no JDK: run scripts/setup, or set JAVA_HOME, or install openjdk-17-jdk-headless" >&2
  exit 2
fi
