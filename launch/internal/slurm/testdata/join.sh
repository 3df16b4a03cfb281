#!/bin/bash
#SBATCH --job-name=join-1234
#SBATCH --partition=gpu
#SBATCH --account=vision
#SBATCH --qos=normal
#SBATCH --constraint=[rack1|rack2]
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-node=2
#SBATCH --mem=32G
#SBATCH --time=08:00:00
#SBATCH --output=%x-%j.out
#SBATCH --exclusive
#SBATCH --no-kill
#SBATCH --no-requeue
#SBATCH --signal=TERM@60

# Submit this file with sbatch. Its nodes join the job as hosts named NODE-JOBID, and leave it when this job ends.
set -u

# shellcheck disable=SC2016 # each node has its own name
exec srun --overlap --ntasks-per-node=1 --kill-on-bad-exit=0 --no-kill --wait=0 --mem=0 --cpu-bind=none --mpi=none --input=none --unbuffered --export=ALL --job-name=launch-agents \
    --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" \
    /bin/sh -c 'exec "$0" "$@" --name "$SLURMD_NODENAME-$SLURM_JOB_ID"' \
    /home/me/bin/launch agent --join @/home/me/.paragon/slurm/1234/address --secret-file /home/me/.paragon/slurm/1234/secret --slots 2
