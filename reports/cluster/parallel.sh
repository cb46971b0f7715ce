#!/usr/bin/env bash
# A sweep in parts under GNU parallel, and the parts joined.
#
#   reports/cluster/parallel.sh PARTS OUT.jsonl SWEEP-WORDS...
#   reports/cluster/parallel.sh 8 growth.jsonl --vary n_kv=64..65536 --vary seed=1..20+1 'n_q=32 d=64'
#
# The parts are OUT.jsonl.part1, ...; started again with the same words, each goes on where it was.
# Environment: FA1LAB, the program [./fa1lab of this checkout]; THREADS of each part [1]; PARALLEL_JOBS,
# parts at once [as many as there are cores]. Further options of GNU parallel, hosts for instance, go
# into ~/.parallel/config. Status as fa1lab merge: 0, 1 where a point is proved wrong, 2 where a part is
# missing or unfinished; 3 without GNU parallel.
set -euo pipefail

if [[ $# -lt 3 || ! $1 =~ ^[1-9][0-9]*$ ]]; then
  echo "parallel.sh: want PARTS OUT.jsonl SWEEP-WORDS..., PARTS a positive number" >&2
  exit 2
fi
if [[ $(parallel --version 2>/dev/null | head -n 1) != "GNU parallel"* ]]; then
  echo "parallel.sh: needs GNU parallel; apt-get install parallel" >&2
  exit 3
fi

parts=$1
out=$2
shift 2
fa1lab=${FA1LAB:-$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../../fa1lab}

# A part that proves a point wrong has status 1 and has done its work; one that failed has said so, and
# merge misses its points.
seq "$parts" |
  parallel --will-cite --quote --jobs "${PARALLEL_JOBS:-100%}" \
    "$fa1lab" sweep "$@" --threads "${THREADS:-1}" --shard "{}/$parts" --out "$out.part{}" >/dev/null ||
  true

files=()
for ((part = 1; part <= parts; ++part)); do files+=("$out.part$part"); done
exec "$fa1lab" merge "${files[@]}" --out "$out"
