#!/bin/bash
#SBATCH --job-name=p
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --output=%j.out
#SBATCH --open-mode=append
#SBATCH --no-kill
#SBATCH --requeue
#SBATCH --signal=B:USR1@90

# Submit this file with sbatch. Where the job is elastic, nodes of another one join it: launch slurm join JOBID
set -u

# A job that was requeued goes on from its newest checkpoint.
if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then
    export PARAGON_RESUME=1
fi

launch=
trap 'kill -USR1 "$launch"' USR1
trap : TERM # Slurm sends it to launch, too

launch --launcher slurm -- p &
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
