# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
# Sourced by build.sh: builds the Rust static library that is linked into libjvm.so.

# Prints the inputs of the recorder: its own crates by content, the crates of the
# registry by version, the compiler.
recorder_inputs() {
  local tree dirs
  if [[ -n $RECORDER ]]; then
    (cd "$RECORDER" && find libjportal_recorder.a include -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)
    return
  fi
  tree=$(cd "$ROOT" && cargo tree --quiet -p jportal-recorder -e normal,build --prefix none) || return 1
  mapfile -t dirs < <(sed -n 's/.*(\(\/[^)]*\)).*/\1/p' <<< "$tree" | sort -u)
  sed 's/ (\/.*//' <<< "$tree" | sort -u
  rustc --version
  sha256sum < "$ROOT/Cargo.toml"
  local dir
  for dir in "${dirs[@]}"; do
    (cd "$dir" && find . -type f -not -path './target/*' -not -path './tests/*' -not -path './fuzz/*' -print0 |
      LC_ALL=C sort -z | xargs -0 sha256sum | sed "s,  ,  ${dir#"$ROOT"/}/,")
  done
}

# Builds the recorder and stores it in $WORK/recorder as configure expects it:
# libjportal_recorder.a and include/. Unchanged files keep their time stamps.
build_recorder() {
  local target=${CARGO_TARGET_DIR:-$ROOT/target} messages archive out
  messages=$LOGS/recorder.json
  build_recorder_crate() {
    (cd "$ROOT" && cargo build --release -p jportal-recorder --lib --message-format=json-render-diagnostics > "$messages")
  }
  run recorder build_recorder_crate || failed "the recorder does not build"
  archive=$(tr ',' '\n' < "$messages" | sed -n 's/.*"\([^"]*libjportal_recorder\.a\)".*/\1/p' | tail -n 1)
  out=$(sed -n '/"reason":"build-script-executed"/{/jportal-recorder[@#]/s/.*"out_dir":"\([^"]*\)".*/\1/p}' "$messages" | tail -n 1)
  [[ -f $archive ]] || die "cargo built no libjportal_recorder.a" "is crate-type staticlib set in rust-core/recorder/Cargo.toml?"
  [[ -d $out/cxxbridge/include ]] || die "the recorder's build script made no bridge headers in $out/cxxbridge/include"
  stage_recorder "$archive" "$out/cxxbridge/include"
}

stage_recorder() {  # stage_recorder ARCHIVE INCLUDE_DIR
  local stage=$WORK/recorder path
  mkdir -p "$stage/include"
  cmp -s "$1" "$stage/libjportal_recorder.a" || cp "$1" "$stage/libjportal_recorder.a"
  while read -r path; do
    mkdir -p "$stage/include/$(dirname "$path")"
    cmp -s "$2/$path" "$stage/include/$path" || cp -L "$2/$path" "$stage/include/$path"
  done < <(cd "$2" && find -L . -name '*.h' | sed 's,^\./,,')
}
