#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
# Checks the peer: runs the examples natively with the oracle agent, and compares what the peer
# makes of the logs with golden/. golden/spec.txt has the numbers that were worked out by hand; the
# other files are whole outputs. Then plants faults into the logs: each must turn each comparison
# red.
# usage: check.sh [--keep DIR] [--bless]
# --bless writes the whole outputs anew, if the numbers of spec.txt hold.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
keep= bless=
while (($#)); do
  case $1 in
    --keep) keep=$2; shift 2 ;;
    --bless) bless=1; shift ;;
    *) echo "check.sh: unknown argument $1" >&2; exit 2 ;;
  esac
done
. "$root/tests/find-jdk.sh"
agent=${ORACLE:-$root/build/oracle/jportal-oracle.jar}
peer=${PEER:-$root/build/peer/jportal-peer.jar}
for file in "$agent" "$peer"; do
  [ -e "$file" ] || { echo "check.sh: $file is missing; run tests/oracle-agent/build.sh and tests/peer/build.sh" >&2; exit 2; }
done
work=${keep:-$(mktemp -d)}
[ -n "$keep" ] || trap 'rm -rf "$work"' EXIT
mkdir -p "$work/classes" "$work/log" "$work/out"
examples="Foo Fun Thr Poly Rec Cb Pre"
kinds="tree counts paths calls trace blocks"
golden=$here/golden

# peer NAME FILE [OPTION...]: all kinds, as FILE.KIND
peer() {
  local name=$1 file=$2; shift 2
  "$jdk/bin/java" -XX:TieredStopAtLevel=1 -jar "$peer" --oracle "$work/log/$name" \
    --classes "$work/classes" --what "${kinds// /,}" --out "$file" "$@" 2>> "$work/peer.log"
}

# The rows of a folder's outputs in the form of spec.txt. Names are as short as is unique there: the
# class only where it is not the example's, the descriptor only of Cb.compare.
flatten() {
  local name=$1 dir=$2
  awk -F'\t' -v OFS=' ' -v n="$name" '
    function short(c, m, d) { return (c == n ? "" : c ".") m (m == "compare" ? d : "") }
    function exact(a, b) { return a == b ? a : a ".." b }
    FNR == 1 { file = FILENAME; sub(/.*\./, "", file); next }
    FILENAME ~ /tree$/ {
      p[$1, $2] = ($3 < 0) ? "" : p[$1, $3] (($4 == 1) ? ($1 == 0 ? "" : $1 ":") : ";") short($5, $6, $7)
      if ($4 > 6 || $4 == 0) { } else print n, "tree", p[$1, $2], exact($8, $9), exact($10, $11), exact($12, $13)
      if ($4 > 0) { nodes[$6]++; calls[$6] += $9; begun[$6] += $13; c += $9; w += $11; b += $13 }
    }
    FILENAME ~ /counts$/ && $2 ~ /block|bytecode/ { print n, $2, short($3, $4, $5), $6, exact($9, $10) }
    FILENAME ~ /counts$/ && $2 == "line" { print n, $2, short($3, $4, $5), $7, exact($9, $10) }
    FILENAME ~ /counts$/ && $2 == "exception" { print n, $2, short($3, $4, $5), $6, $8, exact($9, $10) }
    FILENAME ~ /counts$/ && $2 == "way" && $9 > 0 { taken[short($3, $4, $5)]++ }
    FILENAME ~ /paths$/ && $5 == "paths" { print n, $5, short($2, $3, $4), $6 }
    FILENAME ~ /paths$/ && $5 == "path" { print n, $5, short($2, $3, $4), $6, exact($7, $8), "(" $9 ")" }
    FILENAME ~ /paths$/ && $5 == "cut" { print n, $5, short($2, $3, $4), exact($7, $8), "(" $9 ")" }
    FILENAME ~ /calls$/ && $2 != "(root)" { print n, "calls", short($2, $3, $4) "@" $5, short($6, $7, $8), exact($9, $10) }
    FILENAME ~ /trace$/ && FNR <= 6 { round = round " " $2 $8 }
    FILENAME ~ /blocks$/ && FNR <= 23 { sequence = sequence " " $2 ($2 == "s" ? ":" short($5, $6, $7) : $8) }
    END {
      print n, "sum", c, w, b
      for (m in nodes) print n, "nodes", m, nodes[m], calls[m], begun[m]
      for (m in taken) print n, "taken", m, taken[m]
      print n, "round" round
      print n, "sequence" sequence
    }' "$dir/$name.tree" "$dir/$name.counts" "$dir/$name.paths" "$dir/$name.calls" "$dir/$name.trace" "$dir/$name.blocks"
}

"$jdk/bin/javac" -encoding UTF-8 --release 17 -g -d "$work/classes" "$root"/tests/programs/src/examples/*.java
failed=0
for name in $examples; do
  rm -rf "$work/log/$name"
  "$jdk/bin/java" -javaagent:"$agent=out=$work/log/$name" -cp "$work/classes" "$name" > "$work/out/$name.printed"
  peer "$name" "$work/out/$name" || { echo "FAILED $name: status $?"; failed=1; }
  flatten "$name" "$work/out" > "$work/out/$name.flat"
  while IFS= read -r line; do
    grep -qxF -- "$line" "$work/out/$name.flat" || { echo "FAILED, not found: $line"; failed=1; }
  done < <(grep "^$name " "$golden/spec.txt")
done
if [ -n "$bless" ] && ((!failed)); then
  for name in $examples; do for kind in $kinds; do cp "$work/out/$name.$kind" "$golden/$name.$kind.tsv"; done; done
fi
same() { cmp -s "$1" "$golden/$2.$3.tsv"; }
checks=0
for name in $examples; do
  for kind in $kinds; do
    checks=$((checks + 1))
    same "$work/out/$name.$kind" "$name" "$kind" || { echo "FAILED $name $kind: not as in golden/"; failed=1; }
  done
done
faults=0
for name in $examples; do
  for fault in drop twice swap; do
    status=0
    peer "$name" "$work/out/spoiled" --fault "$fault" || status=$?
    for kind in $kinds; do
      faults=$((faults + 1))
      if ((status == 0)) && same "$work/out/spoiled.$kind" "$name" "$kind"; then
        echo "FAILED $name $kind: $fault is not seen"; failed=1
      fi
    done
  done
done

# Matches of traces. Each line of golden/matches.txt has a name, the peer's rows (kind, how, depth,
# place)
# and a client's tokens; names that begin with "not" must not match.
matches=0
while IFS='|' read -r name rows tokens; do
  [[ $name == [a-z]* ]] || continue
  matches=$((matches + 1))
  { printf 'thread\tkind\thow\tdepth\tclass\tmethod\tdescriptor\tbci\n'
    for row in $rows; do printf '0\t%s\t%s\t%s\tC\t%s\t()V\t0\n' "${row:0:1}" "${row:1:1}" "${row:2:1}" "${row:3}"; done
  } | tr '{/}' '<|>' > "$work/out/match.peer"
  { printf 'thread\tkind\tclass\tmethod\tdescriptor\tbci\n'
    for token in $tokens; do printf '0\t%s\tC\t%s\t()V\t0\n' "${token:0:1}" "${token:1}"; done
  } > "$work/out/match.client"
  status=0
  "$jdk/bin/java" -XX:TieredStopAtLevel=1 -cp "$peer" jportal.peer.Compare trace "$work/out/match.peer" \
    "$work/out/match.client" > "$work/out/match.text" 2>&1 || status=$?
  expected=0
  [[ $name != not* ]] || expected=1
  ((status == expected)) || { echo "FAILED match, $name: status $status: $(cat "$work/out/match.text")"; failed=1; }
done < "$here/golden/matches.txt"
echo "peer: $(wc -l < "$golden/spec.txt") numbers by hand, $checks whole outputs, $faults planted faults, $matches matches: $( ((failed)) && echo FAILED || echo ok)"
exit $failed
