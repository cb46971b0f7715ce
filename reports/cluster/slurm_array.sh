#!/usr/bin/env bash
#SBATCH --job-name=fa1lab-sweep
#SBATCH --ntasks=1
# A sweep in parts as a Slurm array; each task makes one part.
#
#   sbatch --array=1-8 reports/cluster/slurm_array.sh OUT.jsonl SWEEP-WORDS...
#   fa1lab merge OUT.jsonl.part* --out OUT.jsonl        # once all have ended
#
# The array begins at 1 and its last number is the number of parts; to repeat some of them, say the
# number in PARTS: PARTS=8 sbatch --array=3,5 ... A task that is requeued goes on where it was.
# Environment: FA1LAB, the program [fa1lab in the folder of submission]. Threads: --cpus-per-task.
set -euo pipefail

if [[ $# -lt 2 || -z ${SLURM_ARRAY_TASK_ID:-} ]]; then
  echo "slurm_array.sh: want sbatch --array=1-PARTS slurm_array.sh OUT.jsonl SWEEP-WORDS..." >&2
  exit 2
fi

out=$1
shift
part=$SLURM_ARRAY_TASK_ID
status=0
"${FA1LAB:-${SLURM_SUBMIT_DIR:-.}/fa1lab}" sweep "$@" --threads "${SLURM_CPUS_PER_TASK:-1}" \
  --shard "$part/${PARTS:-$SLURM_ARRAY_TASK_MAX}" --out "$out.part$part" >/dev/null || status=$?

# 1 says that a point is proved wrong: the task has done its work, and merge tells.
((status <= 1)) || exit "$status"
