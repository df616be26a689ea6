#!/usr/bin/env bash
# From a command to the first collective done, on 4 ranks with LibTorch loaded: `trireme`, torchrun, and ray.init()
# with 4 actors that import torch. Takes turns, and prints each one's median and its ratio to ours.
#   tools/bench/startup.sh [ROUNDS]
# PYTHON: with torch (torchrun). RAY_PYTHON: with ray, and torch where it can import it from. TRIREME: the program.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
rounds=${1:-5}
PYTHON=${PYTHON:-python3}
RAY_PYTHON=${RAY_PYTHON:-$PYTHON}
TRIREME=${TRIREME:-$root/build/cpu/bin/trireme}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1

cat >"$work/reduce_once.py" <<'PYTHON'
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(1)
dist.all_reduce(x)
assert x.item() == 4
dist.destroy_process_group()
PYTHON
cat >"$work/four_actors.py" <<'PYTHON'
import ray
ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)

@ray.remote
class Actor:
    def ready(self):
        import torch
        return torch.ones(1).sum().item()

actors = [Actor.remote() for _ in range(4)]
assert sum(ray.get([a.ready.remote() for a in actors])) == 4
PYTHON

# Every rank opens MPI and all groups, and the first stage ends with a collective of all ranks; a run of no steps
# is nothing but its start and its end.
trireme() {
  "$TRIREME" run "$root/configs/quickstart.toml" -n 4 --run-dir "$work/run-$RANDOM$RANDOM" \
    sft.warm_start=false trainer.total_training_steps=1 actor.optim.lr_warmup_steps=0 data.train_batch_size=4 rollout.n=2 \
    trainer.val_before_train=false data.arithmetic.num_val=4 data.max_response_length=2 >/dev/null 2>&1
}
torchrun() { "$PYTHON" -m torch.distributed.run --standalone --nproc-per-node 4 "$work/reduce_once.py" >/dev/null 2>&1; }
ray_actors() { "$RAY_PYTHON" "$work/four_actors.py" >/dev/null 2>&1; }
nothing() { "$TRIREME" run "$root/configs/quickstart.toml" -n 4 --run-dir "$work/run-$RANDOM$RANDOM" --rank-program /bin/true >/dev/null 2>&1; }

seconds() { # command -> its wall time
  local begin end
  begin=$(date +%s.%N)
  "$@" || { echo "startup.sh: $1 failed" >&2 && return 1; }
  end=$(date +%s.%N)
  echo "$end - $begin" | bc
}
median() { sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }

names=(trireme torchrun ray_actors nothing)
for ((round = 0; round < rounds; ++round)); do
  for name in "${names[@]}"; do seconds "$name" >>"$work/$name" || true; done
done
ours=$(median <"$work/trireme")
printf '%-44s %8s  %s\n' "4 ranks, medians of $rounds rounds" seconds "times ours"
describe() {
  case "$1" in
    trireme) echo "trireme, with a whole step and a checkpoint" ;;
    torchrun) echo "torchrun, gloo, one all_reduce" ;;
    ray_actors) echo "ray.init(), 4 actors that import torch" ;;
    nothing) echo "trireme, ranks that are /bin/true" ;;
  esac
}
for name in "${names[@]}"; do
  [[ -s $work/$name ]] || continue
  value=$(median <"$work/$name")
  printf '%-44s %8.2f  %5.2f\n' "$(describe "$name")" "$value" "$(echo "$value / $ours" | bc -l)"
done
