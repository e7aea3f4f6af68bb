"""What a mesh is without any process: shapes, refusals, one process, and the calls that GPUs would get."""

import atexit
from copy import deepcopy
from datetime import timedelta
from itertools import chain
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import HashStore

from refprior import _mesh
from refprior._mesh import ALONE, Mesh, joined, usable_device
from refprior.particles import Particles

CPU = torch.device("cpu")


def shape(monkeypatch: pytest.MonkeyPatch, ranks: int, particles: int, wanted: int | None = None) -> tuple[int, int]:
    asked: list[Any] = []
    monkeypatch.setattr(_mesh, "init_device_mesh", lambda kind, shape, mesh_dim_names: asked.append(shape))
    mesh = _mesh.made(ranks, 0, particles, "cpu", wanted)
    return mesh.particle, mesh.data


def test_particles_are_shared_out_as_far_as_they_go_and_the_rest_divide_the_inputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert shape(monkeypatch, 4, 4) == (4, 1)
    assert shape(monkeypatch, 8, 4) == (4, 2)
    assert shape(monkeypatch, 6, 4) == (2, 3)
    assert shape(monkeypatch, 3, 4) == (1, 3)
    assert shape(monkeypatch, 4, 4, 2) == (2, 2)
    with pytest.raises(ValueError, match="particle_ranks=3 does not divide 6 ranks and 4 particles: take a"):
        shape(monkeypatch, 6, 4, 3)


def test_one_process_is_alone_and_is_told_so() -> None:
    assert joined(4, CPU) is ALONE
    with pytest.raises(ValueError, match="particle_ranks=2, but this is one process: start it with torchrun"):
        joined(4, CPU, 2)


@pytest.mark.parametrize("count", [1, 3, 4, 5, 10, 11])
def test_every_particle_and_every_input_is_with_some_rank(count: int) -> None:
    ranks = [Mesh(2, 3, rank) for rank in range(6)]
    assert [rank.block(8) for rank in ranks] == [slice(0, 4)] * 3 + [slice(4, 8)] * 3
    rows = [list(range(count))[rank.rows(count)] for rank in ranks[:3]]
    everything = list(range(count))
    assert list(chain(*rows)) == everything if count >= 3 else rows == [everything] * 3


def test_alone_everything_is_what_it_was() -> None:
    own = torch.randn(2, 3)
    assert ALONE.whole(own, 3) is own
    assert ALONE.largest(3, 1) == [3, 1]
    assert ALONE.broadcast({"a": 1}) == {"a": 1}
    assert next(iter(ALONE.blocks(own))).equal(own.flatten())
    state = torch.get_rng_state()
    with ALONE.own_draws(), ALONE.first_rank_logs(), ALONE.together():
        pass
    assert torch.get_rng_state().equal(state)
    assert ALONE.traffic.calls == 0


def test_a_gpu_is_that_of_the_local_rank_and_its_group_is_of_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU here: fakes note the calls."""
    for name, value in {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="device 'cuda' cannot be used here"):
        usable_device("cuda")
    calls: list[Any] = []
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: calls.append(("set_device", str(device))))
    monkeypatch.setattr(dist, "init_process_group", lambda *words, **more: calls.append((words, more)))
    monkeypatch.setattr(atexit, "register", lambda function: None)
    kept = HashStore()  # of a launcher
    monkeypatch.setattr(_mesh, "rendezvous", lambda address, timeout: iter([(kept, 5, 8)]))
    device = torch.device("cuda", 1)
    _mesh._start(device)
    first = calls[1][1].pop("store")
    met = {"rank": 5, "world_size": 8}
    assert calls == [
        ("set_device", "cuda:1"),
        (("nccl",), {**met, "timeout": timedelta(seconds=300), "device_id": device}),
    ]
    monkeypatch.setenv("REFPRIOR_TIMEOUT", "7")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    _mesh._start(CPU)
    second = calls[2][1].pop("store")
    assert calls[2:] == [(("gloo",), {**met, "timeout": timedelta(seconds=7)})]
    first.set("address", "of a rank that is gone")
    assert second.num_keys() == 0 or not second.check(["address"])  # ranks that are started again do not find it
    monkeypatch.setenv("REFPRIOR_TIMEOUT", "soon")
    with pytest.raises(ValueError, match="REFPRIOR_TIMEOUT must be a number of seconds, got 'soon'"):
        _mesh._start(CPU)


class _OnGpu(Mesh):
    device = torch.device("cuda")
    data_group = "the ranks with the same particles"  # type: ignore[assignment]


def test_on_a_gpu_batch_norm_is_torchs_own_synchronized_one() -> None:
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, momentum=0.2), nn.ReLU())
    particles = Particles(lambda: deepcopy(network), 2).to("meta")
    _mesh.synchronize_batch_norm(particles.network, _OnGpu(1, 2))
    norm = particles.network[1]  # type: ignore[index]
    assert type(norm) is nn.SyncBatchNorm
    assert norm.process_group == _OnGpu.data_group
    assert norm.weight.shape == (2, 4)
    assert norm.momentum == 0.2


class OwnNorm(nn.BatchNorm1d):
    """A batch norm of a user's."""


def test_a_batch_norm_of_your_own_is_refused_where_inputs_are_divided() -> None:
    with pytest.raises(ValueError, match="the custom batch norm OwnNorm cannot share its statistics"):
        Particles(lambda: nn.Sequential(nn.Linear(3, 2), OwnNorm(2)), 2, mesh=Mesh(1, 2))


def test_a_batch_that_is_too_small_to_divide_is_refused_by_batch_norm_alone() -> None:
    particles = Particles(lambda: nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)), 2, mesh=Mesh(1, 4))
    with pytest.raises(ValueError, match="cannot divide a batch of 3 inputs among 4 ranks"):
        particles.train()(torch.ones(3, 3))
