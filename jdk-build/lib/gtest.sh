# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
# Sourced by build.sh: builds and runs the googletests of the overlay.

# Builds a VM from the objects of libjvm.so, the overlay's tests (test/hotspot/gtest/jportal) and
# the two files of the JDK that every test needs. googletest is part of Debian's source package.
make_gtest() {
  local tests=$WORK/gtest
  GTEST=$OUT/hotspot/variant-server/libjvm/gtest/gtestLauncher
  [[ -d $SRC/googletest/googletest ]] ||
    die "$SRC/googletest is missing" "Debian's source package of openjdk-17 has it; for a checkout, put a copy there"
  rm -rf "$tests"
  mkdir -p "$tests/jportal"
  ln -s "$SRC/test/hotspot/gtest/"{gtestMain.cpp,unittest.hpp} "$tests/"
  ln -s "$SRC/test/hotspot/gtest/jportal/"*.cpp "$tests/jportal/"
  step "make googletests ($LEVEL)"
  run gtest make -C "$OUT" hotspot-server-libs LOG=warn ${JOBS:+JOBS="$JOBS"} \
    GTEST_FRAMEWORK_SRC="$SRC/googletest" GTEST_TEST_SRC="$tests" || {
    grep -nE 'error:|undefined reference|\*\*\*' "$LAST_LOG" | head -n 20 >&2 || true
    failed "the googletests do not build"
  }
  [[ -x $GTEST ]] || die "make left no $GTEST"
}

# Runs the tests with the class library of the JDK in $1. Prints "N passed, N failed" last.
run_gtest() {
  local log=$LOGS/gtest-run.log status=0 good bad
  step "googletests ($LEVEL)"
  (cd "$LOGS" && "$GTEST" "-jdk:$1" --gtest_filter='JPortal*' > "$log" 2>&1) || status=$?
  good=$(grep -c '^\[       OK \]' "$log" || true)
  bad=$(grep -cE '^\[  FAILED  \].* ms\)$' "$log" || true)
  if ((status != 0 || good == 0)); then
    tail -n 40 "$log"
    ((bad > 0)) || bad=1
  fi
  echo "$good passed, $bad failed"
  ((bad == 0))
}
