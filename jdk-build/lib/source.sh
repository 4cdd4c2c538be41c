# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
# Sourced by build.sh: downloads Debian's source package and the binary packages of the
# same version. The system's apt configuration is read, never written: lists,
# archives and the sources.list with deb-src live under $CACHE/apt.

BINARIES=(openjdk-17-jre-headless openjdk-17-jdk-headless)

apt_private() {  # apt_private TOOL ARGS...
  local tool=$1; shift
  "$tool" -o Dir::Etc::sourcelist="$CACHE/apt/sources.list" -o Dir::Etc::sourceparts=- \
    -o Dir::State="$CACHE/apt/state" -o Dir::State::status="$CACHE/apt/state/status" \
    -o Dir::Cache="$CACHE/apt/cache" -o APT::Sandbox::User=root \
    -o Acquire::Languages=none -o APT::Get::List-Cleanup=true -q "$@"
}

# Writes the suites of this Debian release that the system's own configuration
# names, each as deb and deb-src.
write_sources_list() {
  local codename keyring=/usr/share/keyrings/debian-archive-keyring.gpg option=''
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  [[ ! -f $keyring ]] || option="[signed-by=$keyring] "
  mkdir -p "$CACHE/apt/state/lists/partial" "$CACHE/apt/cache/archives/partial"
  touch "$CACHE/apt/state/status"
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    awk -v code="$codename" -v option="$option" '
      $3 == "main" && ($2 == code || index($2, code "-") == 1) && !seen[$0]++ {
        print "deb " option $1, $2, $3; print "deb-src " option $1, $2, $3 }' > "$CACHE/apt/sources.list"
  [[ -s $CACHE/apt/sources.list ]] ||
    die "apt knows no Debian mirror for '${codename:-this release}'" \
      "add one to /etc/apt/sources.list.d (a plain 'deb' entry is enough), or build a checkout with --source DIR"
}

# Prints the versions whose source and binary packages are listed, newest first.
listed_versions() {
  apt_private apt-cache madison openjdk-17 "${BINARIES[@]}" 2>/dev/null | awk -F' *[|] *' '
    { gsub(/^ +| +$/, "", $1); kind = ($3 ~ /Sources$/) ? "source" : $1; if (!seen[$2, kind]++) count[$2]++ }
    END { for (v in count) if (count[v] == 3) print v }' | sort -rV
}

fetch_version() {  # fetch_version VERSION: source and binaries into $CACHE/downloads/VERSION
  local dir="$CACHE/downloads/$1" name
  [[ ! -f $dir/complete ]] || return 0
  mkdir -p "$dir"
  (cd "$dir" && apt_private apt-get source --download-only --only-source "openjdk-17=$1") || return 1
  for name in "${BINARIES[@]}"; do
    (cd "$dir" && apt_private apt-get download "$name=$1") || return 1
  done
  ls "$dir"/*.dsc "$dir"/openjdk-17-jre-headless_*.deb "$dir"/openjdk-17-jdk-headless_*.deb >/dev/null || return 1
  : > "$dir/complete"
}

# Sets VERSION. Without --update it keeps the version that an earlier build chose.
choose_version() {
  if [[ -n $WANT_VERSION ]]; then
    VERSION=$WANT_VERSION
  elif [[ -f $CACHE/version ]] && ((!UPDATE)); then
    VERSION=$(< "$CACHE/version")
  fi
  if [[ -n ${VERSION:-} && -f $CACHE/downloads/$VERSION/complete ]]; then return 0; fi

  step "looking for Debian's openjdk-17 source package"
  need_space "$CACHE" 2
  write_sources_list
  run apt-update apt_private apt-get update ||
    failed "the package lists could not be fetched" "is the network up, and does 'apt-get update' work here?"
  local candidates version
  mapfile -t candidates < <(listed_versions)
  [[ -z $WANT_VERSION ]] || candidates=("$WANT_VERSION")
  ((${#candidates[@]})) || die "this Debian release lists no openjdk-17 with both source and binary packages" \
    "build a checkout of your own with --source DIR" "what apt saw: $CACHE/apt/sources.list"
  for version in "${candidates[@]}"; do
    if run download fetch_version "$version"; then
      VERSION=$version
      [[ -n $WANT_VERSION ]] || printf '%s\n' "$version" > "$CACHE/version"
      note "openjdk-17 $version"
      return 0
    fi
    rm -rf "$CACHE/downloads/$version"
    note "$version is listed but cannot be downloaded whole"
  done
  failed "no version of openjdk-17 has both its source and its binary packages on the mirror" \
    "tried: ${candidates[*]}"
}
progress_download() { du -sh "$CACHE/downloads" 2>/dev/null | awk '{ print $1 " downloaded" }'; }

# Unpacks the source of $VERSION into $WORK/src, unless it is unpacked.
unpack_source() {
  if [[ -f $WORK/source-version && $(< "$WORK/source-version") == "$VERSION" && ! -e $WORK/src/.jportal/incomplete ]]; then
    return 0
  fi
  step "unpacking the source of $VERSION"
  need_space "$CACHE" 6
  rm -rf "$WORK/src" "$WORK/src.new" "$WORK/out" "$WORK/source-version"
  run unpack dpkg-source --no-check -x "$CACHE/downloads/$VERSION"/openjdk-17_*.dsc "$WORK/src.new" ||
    failed "the source package does not unpack"
  mv "$WORK/src.new" "$WORK/src"
  printf '%s\n' "$VERSION" > "$WORK/source-version"
}
