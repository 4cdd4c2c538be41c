# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
# Sourced by build.sh: makes a relocatable JDK image of Debian's binary packages,
# and the same image with our libjvm.so.

# Unpacks the packages of $VERSION once into $CACHE/debian-$VERSION.
unpack_debian_image() {
  DEBIAN_IMAGE=$CACHE/debian-$VERSION
  [[ ! -x $DEBIAN_IMAGE/bin/java ]] || return 0
  step "unpacking Debian's binary packages of $VERSION"
  local tmp=$CACHE/debian.tmp deb
  rm -rf "$tmp"; mkdir -p "$tmp"
  for deb in "$CACHE/downloads/$VERSION"/*.deb; do
    dpkg -x "$deb" "$tmp" || die "$deb does not unpack" "remove $CACHE/downloads/$VERSION and repeat"
  done
  local image link target
  image=$(echo "$tmp"/usr/lib/jvm/java-17-openjdk-*)
  [[ -d $image && ! -L $image ]] || image=$tmp/usr/lib/jvm/java-17-openjdk-amd64
  # Configuration files are links to /etc/java-17-openjdk: make them real.
  while read -r link; do
    target=$(readlink "$link")
    case $target in
      /etc/java-17-openjdk/*) rm "$link"; cp -p "$tmp$target" "$link" ;;
      # Kept: the certificates are those of the system, if it has any.
      /etc/ssl/certs/java/cacerts) ;;
      *) [[ $(realpath -m "$link") == "$image"/* ]] || rm "$link" ;;
    esac
  done < <(find "$image" -type l)
  share_classes "$image"
  mv "$image" "$DEBIAN_IMAGE"
  rm -rf "$tmp"
}

share_classes() {  # share_classes IMAGE: makes the CDS archive, as the package's installation does
  run cds "$1/bin/java" -Xshare:dump || failed "$1/bin/java -Xshare:dump failed" "the image is kept for inspection"
}

# install_image FROM TO [LIBJVM]: copies FROM, with LIBJVM if given; the finished copy replaces TO.
install_image() {
  local new=$2.new
  mkdir -p "$(dirname "$2")"
  rm -rf "$new"
  cp -a --reflink=auto "$1" "$new"
  if [[ -n ${3:-} ]]; then
    rm -f "$new"/lib/server/*.jsa
    install -m 644 "$3" "$new/lib/server/libjvm.so"
    share_classes "$new"
  fi
  rm -rf "$2.old"
  [[ ! -e $2 ]] || mv "$2" "$2.old"
  mv "$new" "$2"
  rm -rf "$2.old"
}
