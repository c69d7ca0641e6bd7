#!/bin/bash
# Two nodes of four processes: sbatch slurm.sh
#SBATCH --job-name=holter-example
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=00:10:00
set -euo pipefail

# Checkpoints and attempts lie beside each other in a folder that every node sees; the job starts there.
cd "${SLURM_SUBMIT_DIR}"
export KAFKA_BOOTSTRAP_SERVERS="${KAFKA_BOOTSTRAP_SERVERS:?where your Kafka is, e.g. kafka:9092}"
export HOLTER_KEYS_FILE="${HOLTER_KEYS_FILE:?the key file, mode 0600, on every node}"
head_node="$(scontrol show hostnames "${SLURM_JOB_NODELIST}" | head -n 1)"

srun torchrun --nnodes "${SLURM_NNODES}" --nproc-per-node 4 \
    --rdzv-backend c10d --rdzv-endpoint "${head_node}:29500" --rdzv-id "${SLURM_JOB_ID}" \
    -m holter.producers.examples.ddp
