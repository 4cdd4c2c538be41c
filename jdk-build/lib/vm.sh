# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
# Sourced by build.sh: applies overlay and patches, runs configure and make hotspot.

# The arguments of configure that affect the result; configure_tree adds paths.
configure_args() {
  printf '%s\n' --with-debug-level="$LEVEL" --enable-headless-only --with-jvm-variants=server \
    --with-pcsclite=bundled --with-harfbuzz=bundled --disable-warnings-as-errors \
    --with-native-debug-symbols=none --disable-jvm-feature-dtrace
  if [[ -z $SOURCE ]]; then
    # Debian: 17.0.19+10-1~deb12u2 is upstream 17.0.19+10.
    local build=${VERSION#*+}
    printf '%s\n' --with-version-pre= --with-version-build="${build%%-*}"
  fi
  printf '%s\n' --with-version-opt="$( ((FEATURE)) && echo jportal || echo plain)"
  ((!FEATURE)) || printf '%s\n' --enable-jportal
}

# Prints the key of libjvm.so in the cache: a hash of all its inputs.
vm_key() {
  {
    printf 'layout 1\nsource %s\n' "$VERSION"
    configure_args
    gcc --version | head -n 1
    (cd "$ROOT/hotspot-patches" && grep -v '^#' jdk17u/series | sed '/^$/d; s,^,jdk17u/,' | xargs sha256sum
     if [[ -d overlay ]]; then find overlay -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum; fi)
    ((!FEATURE)) || recorder_inputs
  } > "$LOGS/inputs" || return 1
  sha256sum < "$LOGS/inputs" | cut -c1-32
}

apply_patches() {
  step "overlay and patches"
  run apply "$ROOT/hotspot-patches/apply" "$SRC" || { cat "$LAST_LOG" >&2; die "the source tree does not take the patches"; }
  note "$(tail -n 1 "$LAST_LOG")"
}

# configure runs again only when its arguments or its own sources have changed.
configure_tree() {
  local args stamp=$OUT/.jportal-configure newer=''
  mapfile -t args < <(configure_args)
  args+=(--with-boot-jdk="$BOOT_JDK")
  ((!FEATURE)) || args+=(--with-jportal-recorder="$WORK/recorder")
  mkdir -p "$OUT"
  printf '%s\n' "${args[@]}" > "$LOGS/configure-args"
  if [[ -f $OUT/spec.gmk ]] && cmp -s "$LOGS/configure-args" "$stamp"; then
    # The JDK's make refuses to run when these are newer than spec.gmk.
    newer=$(cd "$SRC" && find configure make/autoconf make/conf -type f -newer "$OUT/spec.gmk" -print -quit)
    [[ -n $newer ]] || return 0
  fi
  step "configure"
  rm -f "$stamp"
  configure_run() { cd "$OUT" && bash "$SRC/configure" "${args[@]}"; }
  run configure configure_run || failed "configure failed"
  cp "$LOGS/configure-args" "$stamp"
}

make_hotspot() {
  step "make hotspot ($LEVEL; about 1,090 files on a first run)"
  need_space "$CACHE" 2
  OBJECTS=$OUT/hotspot/variant-server/libjvm/objs
  run make make -C "$OUT" hotspot LOG=warn ${JOBS:+JOBS="$JOBS"} || {
    grep -nE 'error:|Error [0-9]|undefined reference|\*\*\*' "$LAST_LOG" | head -n 20 >&2 || true
    failed "HotSpot does not compile"
  }
  LIBJVM=$OUT/support/modules_libs/java.base/server/libjvm.so
  [[ -f $LIBJVM ]] || LIBJVM=$OUT/hotspot/variant-server/libjvm/libjvm.so
  [[ -f $LIBJVM ]] || die "make hotspot left no libjvm.so under $OUT"
}
progress_make() { printf '%s of about 1,090 objects' "$(find "$OBJECTS" -name '*.o' 2>/dev/null | wc -l)"; }

# Succeeds if the checkout has the version of Debian's JDK. Otherwise it needs its
# own class library.
source_matches_debian() {
  local numbers=$SRC/make/conf/version-numbers.conf field version=''
  for field in FEATURE INTERIM UPDATE; do
    version+=.$(sed -n "s/^DEFAULT_VERSION_$field=//p" "$numbers")
  done
  [[ ${version#.} == "${VERSION%%+*}" ]]
}

make_jdk_image() {
  step "make jdk-image (the checkout is not ${VERSION%%+*}, so its class library is built too)"
  need_space "$CACHE" 6
  OBJECTS=$OUT/hotspot/variant-server/libjvm/objs
  run make make -C "$OUT" jdk-image LOG=warn ${JOBS:+JOBS="$JOBS"} || failed "the JDK does not build"
  [[ -x $OUT/images/jdk/bin/java ]] || die "make jdk-image left no image in $OUT/images/jdk"
}
