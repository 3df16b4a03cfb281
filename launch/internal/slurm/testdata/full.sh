#!/bin/bash
#SBATCH --job-name=cifar10
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
#SBATCH --open-mode=append
#SBATCH --no-kill
#SBATCH --requeue
#SBATCH --signal=B:USR1@120

# Submit this file with sbatch. Where the job is elastic, nodes of another one join it: launch slurm join JOBID
set -u

# A job that was requeued goes on from its newest checkpoint.
if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then
    export PARAGON_RESUME=1
fi

launch=
trap 'kill -USR1 "$launch"' USR1
trap : TERM # Slurm sends it to launch, too

/home/me/bin/launch --launcher slurm -s 2 --elastic-training-enabled --env 'NOTE=it'\''s $HOME' -- ./cifar10 --name 'a b' --checkpoint-dir ckpt '' '\' 'é' '$(x)' &
launch=$!

# A signal ends wait early; the last wait has launch's exit code.
wait "$launch"
while kill -0 "$launch" 2>/dev/null; do wait "$launch"; done
wait "$launch"
code=$?

# USR1 comes before the time limit. All workers have then written a checkpoint at one step.
if [ "$code" -eq 85 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
