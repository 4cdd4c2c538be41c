#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
# Builds build/jdk: Debian's OpenJDK 17 with JPortal's recording VM.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(dirname "$HERE")

usage() {
  cat <<'TEXT'
usage: build.sh [options]

  --debug-level LEVEL  release (default) or fastdebug
  --without-jportal    build the patched tree without the feature
  --source DIR         build this OpenJDK 17 checkout, not Debian's source package
  --recorder DIR       link DIR/libjportal_recorder.a (headers in DIR/include)
                       instead of building rust-core/recorder
  --output DIR         directory of the JDK; default build/jdk, build/jdk-fastdebug,
                       build/jdk-plain or build/jdk-plain-fastdebug
  --version VERSION    build this version of Debian's openjdk-17
  --update             look for a newer version of Debian's openjdk-17
  --gtest              build and run the googletests of the overlay, and no JDK
  --jobs N             at most N compilers at once
  -v                   show the output of every step

Downloads, work trees and finished libraries are kept in ~/.cache/jportal
(JPORTAL_CACHE or XDG_CACHE_HOME name another place). A second build after a
change of one file of the overlay compiles that file and links.
TEXT
}

LEVEL=release FEATURE=1 SOURCE='' RECORDER='' OUTPUT='' WANT_VERSION='' UPDATE=0 GTESTS=0 JOBS='' VERBOSE=0
. "$HERE/lib/common.sh"
. "$HERE/lib/source.sh"
. "$HERE/lib/recorder.sh"
. "$HERE/lib/vm.sh"
. "$HERE/lib/image.sh"
. "$HERE/lib/gtest.sh"

bad_usage() { usage >&2; printf '\nerror: %s\n' "$1" >&2; exit 2; }
value() { [[ $# -ge 2 ]] || bad_usage "$1 needs a value"; }
while (($#)); do
  case $1 in
    --debug-level) value "$@"; LEVEL=$2; shift ;;
    --without-jportal) FEATURE=0 ;;
    --source) value "$@"; SOURCE=$2; shift ;;
    --recorder) value "$@"; RECORDER=$2; shift ;;
    --output) value "$@"; OUTPUT=$2; shift ;;
    --version) value "$@"; WANT_VERSION=$2; shift ;;
    --update) UPDATE=1 ;;
    --gtest) GTESTS=1 ;;
    --jobs) value "$@"; JOBS=$2; shift ;;
    -v) VERBOSE=1 ;;
    -h|--help) usage; exit 0 ;;
    *) bad_usage "unknown option $1" ;;
  esac
  shift
done
[[ $LEVEL == release || $LEVEL == fastdebug ]] || bad_usage "--debug-level is release or fastdebug, not '$LEVEL'"
[[ -z $JOBS || $JOBS =~ ^[1-9][0-9]*$ ]] || bad_usage "--jobs is a number, not '$JOBS'"
if [[ -n $SOURCE ]]; then
  [[ -d $SOURCE ]] || bad_usage "--source: $SOURCE is not a directory"
  SOURCE=$(cd "$SOURCE" && pwd)
fi

if [[ -n $RECORDER ]]; then
  [[ -f $RECORDER/libjportal_recorder.a && -d $RECORDER/include ]] ||
    bad_usage "--recorder: $RECORDER has no libjportal_recorder.a or no include/"
  RECORDER=$(cd "$RECORDER" && pwd)
fi

((!GTESTS || FEATURE)) || bad_usage "--gtest tests the feature, so it excludes --without-jportal"

name=''
((FEATURE)) || name+=-plain
[[ $LEVEL == release ]] || name+=-$LEVEL
: "${OUTPUT:=$ROOT/build/jdk$name}"
CACHE=${JPORTAL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/jportal}
mkdir -p "$CACHE" || die "cannot create $CACHE" "set JPORTAL_CACHE to a directory you may write"
CACHE=$(cd "$CACHE" && pwd)
OUTPUT=$(realpath -m "$OUTPUT")
if [[ -n $SOURCE ]]; then
  WORK=$CACHE/work-source-$(sha256sum <<< "$SOURCE" | cut -c1-8)$name
else
  WORK=$CACHE/work-$LEVEL$( ((FEATURE)) || echo -plain)
fi
LOGS=$WORK/logs OUT=$WORK/out SRC=${SOURCE:-$WORK/src}
mkdir -p "$LOGS"

check_machine
((!FEATURE)) || [[ -n $RECORDER ]] || command -v cargo >/dev/null ||
  die "no Rust compiler: cargo is not on the PATH" "install Rust $(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml") or newer with rustup"

# bash reads a group in braces as a whole: an edit of this file does not disturb a running build.
{
lock 8 "$CACHE/downloads.lock"
choose_version
unpack_debian_image
BOOT_JDK=$DEBIAN_IMAGE
if [[ ! -x $ROOT/build/jdk-debian/bin/java ]]; then
  step "image $ROOT/build/jdk-debian (Debian's own JDK, to compare with)"
  install_image "$DEBIAN_IMAGE" "$ROOT/build/jdk-debian"
fi
exec 8>&-
lock 9 "$WORK/lock"

build_libjvm() {
  if [[ -n $RECORDER ]]; then
    stage_recorder "$RECORDER/libjportal_recorder.a" "$RECORDER/include"
  elif ((FEATURE)); then
    step "recorder (cargo build --release -p jportal-recorder)"
    build_recorder
  fi
  apply_patches
  configure_tree
  make_hotspot
}

keep_libjvm() {  # stores libjvm.so in the cache under $KEY; keeps the twelve newest
  local dir=$CACHE/libjvm/$KEY
  mkdir -p "$dir"
  cp "$LIBJVM" "$dir/libjvm.so.new"
  cp "$LOGS/inputs" "$dir/inputs"
  mv "$dir/libjvm.so.new" "$dir/libjvm.so"
  ls -dt "$CACHE"/libjvm/*/ | tail -n +13 | xargs -r rm -rf
}

if ((GTESTS)); then
  [[ -n $SOURCE ]] || unpack_source
  build_libjvm
  make_gtest
  run_gtest "$DEBIAN_IMAGE"
  exit
fi
if [[ -n $SOURCE ]]; then
  build_libjvm
  if source_matches_debian; then
    step "image $OUTPUT"
    install_image "$DEBIAN_IMAGE" "$OUTPUT" "$LIBJVM"
  else
    make_jdk_image
    step "image $OUTPUT"
    install_image "$OUT/images/jdk" "$OUTPUT"
  fi
else
  KEY=$(vm_key) || die "cannot list the inputs of the recorder" "does 'cargo tree -p jportal-recorder' work in $ROOT?"
  if [[ -f $OUTPUT/.jportal-build && $(< "$OUTPUT/.jportal-build") == "$KEY" ]]; then
    step "$OUTPUT is up to date (openjdk-17 $VERSION, $LEVEL)"
    exit 0
  fi
  if [[ -f $CACHE/libjvm/$KEY/libjvm.so ]]; then
    step "using the cached libjvm.so of these sources"
    LIBJVM=$CACHE/libjvm/$KEY/libjvm.so
  else
    unpack_source
    build_libjvm
    if [[ $(vm_key) == "$KEY" ]]; then
      keep_libjvm
    else
      note "sources changed during the build: run this again"
      KEY=''
    fi
  fi
  step "image $OUTPUT"
  install_image "$DEBIAN_IMAGE" "$OUTPUT" "$LIBJVM"
  [[ -z $KEY ]] || printf '%s\n' "$KEY" > "$OUTPUT/.jportal-build"
fi
note "$("$OUTPUT/bin/java" -version 2>&1 | tail -n 1)"
exit 0
}
