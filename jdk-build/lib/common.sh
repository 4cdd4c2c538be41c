# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
# Sourced by build.sh: messages, logged steps, locks.

die() {  # die MESSAGE [REMEDY...]
  printf 'error: %s\n' "$1" >&2
  local line
  for line in "${@:2}"; do printf '       %s\n' "$line" >&2; done
  exit 1
}

step() { printf '==> %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }

# run NAME COMMAND... : runs COMMAND with its output in $LOGS/NAME.log. On a
# terminal it updates a progress line, with the text of the shell function
# progress_NAME if there is one.
run() {
  local name=$1 log="$LOGS/$1.log" status=0; shift
  if ((VERBOSE)); then
    "$@" 2>&1 | tee "$log" || status=$?
  elif [[ -t 1 ]]; then
    "$@" > "$log" 2>&1 &
    local pid=$! seconds=$SECONDS text
    while kill -0 "$pid" 2>/dev/null; do
      text=''
      if declare -F "progress_$name" >/dev/null; then text=$("progress_$name"); fi
      printf '\r\033[K    %d:%02d %s' $(((SECONDS - seconds) / 60)) $(((SECONDS - seconds) % 60)) "$text"
      sleep 1
    done
    printf '\r\033[K'
    wait "$pid" || status=$?
  else
    "$@" > "$log" 2>&1 || status=$?
  fi
  LAST_LOG=$log
  return "$status"
}

last_lines() { sed 's/^/  | /' <(tail -n "${1:-12}" "$LAST_LOG"); }

failed() {  # failed MESSAGE [REMEDY...]: prints the end of the last log, then dies
  last_lines >&2
  die "$@" "log: $LAST_LOG"
}

lock() {  # lock FD FILE: waits for other builds that use the same work tree
  eval "exec $1>\"\$2\""
  flock -n "$1" && return 0
  note "waiting for another build that holds $2"
  flock "$1"
}

need_space() {  # need_space DIR GIGABYTES
  local free
  free=$(df -Pk "$1" | awk 'NR == 2 { print int($4 / 1048576) }')
  ((free >= $2)) || die "$1 has $free GB free, this step needs $2 GB" \
    "free some space, or set JPORTAL_CACHE to a directory on a larger disk"
}

check_machine() {
  [[ $(uname -s)-$(uname -m) == Linux-x86_64 ]] ||
    die "JPortal records on x86_64 Linux only; this is $(uname -s) on $(uname -m)"
  local missing=() package
  if command -v dpkg-query >/dev/null; then
    while read -r package; do
      [[ -n $package && $package != \#* ]] || continue
      dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -x installed > /dev/null || missing+=("$package")
    done < "$HERE/packages"
    ((!${#missing[@]})) || die "build packages are missing" "apt-get install ${missing[*]}" "(scripts/setup does this)"
  elif [[ -z $SOURCE ]]; then
    die "this is not a Debian system: no source package of openjdk-17 to build" \
      "build your own checkout with --source DIR"
  fi
}
