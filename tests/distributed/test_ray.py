"""Inside Ray Train's TorchTrainer, which brings its own process group: nothing to do but call `train`."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from refprior.training import train
from tests.distributed.launched import recipe
from tests.distributed.processes import environment
from tests.training.interruption import assert_same_run

SCRIPT = """
import sys
import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

def loop(settings):
    import torch
    from refprior.training import train
    from tests.distributed.launched import recipe
    torch.set_num_threads(1)
    train(recipe(), settings["out"])

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
TorchTrainer(
    loop,
    train_loop_config={"out": sys.argv[1]},
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(storage_path=sys.argv[2]),
).fit()
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_two_workers_of_ray_train_one_run(tmp_path: Path) -> None:
    # Ray starts ten processes, which import it and torch: on a busy machine that takes minutes.
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "run"), str(tmp_path / "storage")]
    done = subprocess.run(command, env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    train(recipe(), tmp_path / "one")
    assert_same_run(tmp_path / "one", tmp_path / "run")
