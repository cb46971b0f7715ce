#!/usr/bin/env bash
# Runs slurm_array.sh for real: a Slurm of one node, started for it and stopped after it, in a folder of
# its own, with a munge key of its own and on ports of its own.
#
#   reports/cluster/slurm_test.sh FA1LAB
#
# Status 0: the parts joined are, byte for byte, the sweep in one. 4: skipped, and why. 1: else.
set -euo pipefail

fa1lab=$(readlink -f "${1:?want the program}")
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")

skip() {
  echo "skipped: $1"
  exit 4
}
for program in munged slurmctld slurmd sbatch squeue sinfo; do
  PATH=$PATH:/usr/sbin command -v "$program" >/dev/null ||
    skip "no $program; apt-get install --no-install-recommends slurmctld slurmd slurm-client munge"
done
[[ $(id -u) == 0 ]] || skip "a Slurm of one's own has to be started as root"
PATH=$PATH:/usr/sbin

scratch=$(mktemp -d /tmp/fa1lab-slurm-XXXXXX)
chmod 755 "$scratch"
processes=()
stop() {
  local status=$? process left
  for process in "${processes[@]}"; do kill "$process" 2>/dev/null || true; done
  for _ in {1..50}; do
    left=0
    for process in "${processes[@]}"; do kill -0 "$process" 2>/dev/null && left=1; done
    ((left)) || break
    sleep 0.1
  done
  for process in "${processes[@]}"; do kill -KILL "$process" 2>/dev/null || true; done
  # What a step left running has this folder's configuration in its environment.
  for process in /proc/[0-9]*; do
    if grep -qzs "^SLURM_CONF=$scratch/" "$process/environ" && [[ ${process#/proc/} != "$$" ]]; then
      kill -KILL "${process#/proc/}" 2>/dev/null || true
    fi
  done
  ((status == 0 || status == 4)) || tail -n 20 "$scratch"/*.log >&2 || true
  rm -rf "$scratch"
  exit "$status"
}
trap stop EXIT
trap 'exit 1' INT TERM HUP

# Two free ports.
read -r port_of_controller port_of_node < <(python3 - <<'PYTHON'
import socket
sockets = [socket.socket() for _ in range(2)]
for s in sockets: s.bind(("127.0.0.1", 0))
print(*[s.getsockname()[1] for s in sockets])
PYTHON
)

mkdir -p "$scratch"/{state,spool,work,munge}
chmod 755 "$scratch/munge"
dd if=/dev/urandom of="$scratch/munge.key" bs=128 count=1 status=none
chmod 400 "$scratch/munge.key"
cat >"$scratch/slurm.conf" <<CONF
ClusterName=fa1lab
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=$port_of_controller
SlurmdPort=$port_of_node
AuthType=auth/munge
AuthInfo=socket=$scratch/munge/socket
CredType=cred/munge
StateSaveLocation=$scratch/state
SlurmdSpoolDir=$scratch/spool
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/slurmd.pid
SlurmctldLogFile=$scratch/slurmctld.log
SlurmdLogFile=$scratch/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SwitchType=switch/none
SchedulerParameters=sched_interval=1
NodeName=node NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=node Default=YES OverSubscribe=YES State=UP
CONF
printf 'CgroupPlugin=cgroup/v1\nCgroupMountpoint=%s/cgroup\n' "$scratch" >"$scratch/cgroup.conf"
export SLURM_CONF=$scratch/slurm.conf

munged --foreground --force --key-file="$scratch/munge.key" --socket="$scratch/munge/socket" \
  --pid-file="$scratch/munge/pid" --log-file="$scratch/munged.log" --seed-file="$scratch/munge/seed" \
  2>"$scratch/munged.err.log" &
processes+=($!)
for _ in {1..50}; do [[ -S $scratch/munge/socket ]] && break; sleep 0.1; done
slurmctld -D -i >"$scratch/slurmctld.out.log" 2>&1 &
processes+=($!)
slurmd -D -N node >"$scratch/slurmd.out.log" 2>&1 &
processes+=($!)
for _ in {1..150}; do
  [[ $(sinfo --noheader -o %t 2>/dev/null) == idle ]] && break
  sleep 0.2
done
[[ $(sinfo --noheader -o %t) == idle ]] || { echo "the node did not come up: $(sinfo -R)" >&2; exit 1; }

words=(--vary "n_kv=3..24" --vary "seed=1,2" 'n_q=2 d=4')
cd "$scratch/work"
export FA1LAB=$fa1lab
sbatch --wait --quiet --array=1-3 --output="$scratch/task-%a.log" "$here/slurm_array.sh" \
  "$scratch/work/parts.jsonl" "${words[@]}"
"$fa1lab" merge parts.jsonl.part{1,2,3} --out joined.jsonl
"$fa1lab" sweep "${words[@]}" --out whole.jsonl >/dev/null
cmp joined.jsonl whole.jsonl
echo "an array of three tasks made the sweep that one process makes"
