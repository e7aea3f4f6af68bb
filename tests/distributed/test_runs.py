"""Whole runs on several ranks: the folder is that of one process, and any number of ranks goes on with it."""

from pathlib import Path
from typing import Any

import pytest
import torch

import refprior as rp
from refprior.training._snapshot import read_trajectory
from tests.distributed.cases import distance
from tests.distributed.runs import CLOSE, EXACT, going_on
from tests.training.interruption import assert_same_run, final_weights, metrics


@pytest.mark.parametrize("name", EXACT)
def test_a_run_on_ranks_that_share_particles_out_is_that_of_one_process(name: str, ranks: Path) -> None:
    """Bit for bit: weights, average, optimizer, streams, generators, the bank of a view that learns, metrics."""
    for world in ("two", "four"):
        assert_same_run(ranks / "one" / f"exact {name}", ranks / world / f"exact {name}")


@pytest.mark.parametrize("name", CLOSE)
def test_a_run_on_ranks_that_divide_inputs_is_that_of_one_process(name: str, ranks: Path) -> None:
    """In double precision to 1e-12, with the statistics of batch norm."""
    for place in ("two/close {} 1x2", "four/close {} 2x2", "four/close {} 1x4"):
        assert_close_runs(ranks / "one" / f"close {name}", ranks / place.format(name))


def assert_close_runs(one: Path, other: Path) -> None:
    first, second = final_weights(one), final_weights(other)
    assert first.keys() == second.keys()
    assert max(distance(tensor, second[name]) for name, tensor in first.items()) <= 1e-12
    for mine, theirs in zip(metrics(one), metrics(other), strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-12)


def test_a_folder_of_many_ranks_is_read_in_one_process(ranks: Path) -> None:
    run = rp.load(ranks / "four" / "close wide 2x2", network=CLOSE["wide"]().network, task=CLOSE["wide"]().task)
    assert run.predict_proba(run.task.test.inputs).shape == (20, 2)  # type: ignore[union-attr]
    assert run.particles.mesh.size == 1
    assert not any("Shared" in type(module).__name__ for module in run.particles.modules())


def test_four_ranks_then_two_then_one_then_eight_go_on_with_a_run(
    ranks: Path, four: list[dict[str, Any]], two: list[dict[str, Any]]
) -> None:
    for found, step in ((four, 5), (two, 10)):
        assert {rank["stopped"] for rank in found} == {
            f"stopped at step {step} of 12 and saved; the same command or call with the folder 'FOLDER' resumes it"
        }
    assert_close_runs(ranks / "one" / "goes on", ranks / "goes on")
    assert [shot.step for shot in read_trajectory(ranks / "goes on").snapshots] == [0, 1, 5, 12]
    assert len(rp.load(ranks / "goes on", network=going_on().network).history) == len(
        metrics(ranks / "one" / "goes on")
    )


def test_a_run_may_be_asked_on_one_rank_alone_and_is_whole_without_a_folder(
    two: list[dict[str, Any]], four: list[dict[str, Any]]
) -> None:
    for found in (*two, *four):
        assert all(found[f"predicts {name}"] for name in EXACT)
        assert found["memory"] == 0


@pytest.mark.parametrize("world", ["two", "four"])
def test_dropout_differs_between_ranks_and_nothing_else_that_is_drawn(
    world: str, request: pytest.FixtureRequest
) -> None:
    found = [rank["dropout"] for rank in request.getfixturevalue(world)]
    log_p = torch.tensor(found[0]["log_p"])  # (4, 4, 16): two blocks of particles, of inputs one or two
    rows = 4 // (len(found) // 2)
    blocks = [log_p[k : k + 2, b : b + rows] for k in (0, 2) for b in range(0, 4, rows)]
    assert all(not one.equal(other) for i, one in enumerate(blocks) for other in blocks[:i])
    for rank in found:
        assert rank["log_p"] == found[0]["log_p"]
        assert rank["state"] == found[0]["state"]
        assert rank["other mask"]
        assert rank["moved"]
        assert rank["left"]


def test_a_gradient_that_is_not_finite_on_one_rank_is_skipped_or_refused_by_all(
    two: list[dict[str, Any]], ranks: Path
) -> None:
    assert_same_run(ranks / "one" / "skipped", ranks / "two" / "skipped")
    assert [rank["skipped"] for rank in two] == [1, 1]
    said = "step 3: the gradient is not finite, particle 3: lower the learning rate"
    assert [rank["refused"].partition(";")[0] for rank in two] == [said, said]
    assert (ranks / "two" / "refused" / "trouble-step-00000003.safetensors").exists()


def test_a_full_disk_of_the_first_rank_keeps_the_old_checkpoint_and_training_goes_on(
    two: list[dict[str, Any]], ranks: Path
) -> None:
    assert_same_run(ranks / "one" / "full", ranks / "two" / "full")
    assert [line[:21] for line in two[0]["full disk"]] == ["could not save step 2", "could not save step 3"]
    assert two[1]["full disk"] == []
    for rank in two:
        assert rank["no disk"].startswith(
            "could not save step 3 in no disk; the checkpoint of step 0 stays. Free some space"
        )


def test_what_only_one_rank_has_ends_all_with_one_error(two: list[dict[str, Any]]) -> None:
    first, second = (rank["elsewhere"] for rank in two)
    assert first[0] == "ValueError: rank 1: photos is not there"
    assert second[0] == "ValueError: photos is not there"
    assert first[1] == second[1]
    assert first[1].startswith("ValueError: rank 1 has data other than rank 0: all ranks must train the same run")


def test_a_checkpoint_is_written_without_all_particles_in_the_memory_of_the_first_rank(
    two: list[dict[str, Any]],
) -> None:
    for number, rank in enumerate(two):
        grown, size = rank["peak"]["grown"], rank["peak"]["size"]
        print(f"rank {number}: {grown / 2**20:.0f} MiB more at the peak for a checkpoint of {size / 2**20:.0f} MiB")
        assert size > 200e6
        assert grown < 80e6  # half of the particles are 120 MB
