"""The checkpoint reader: damaged, foreign and malicious files get its own error, and run nothing."""

import hashlib
import json
import pickle
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from refprior.methods import ReferencePrior
from refprior.particles import Particles
from refprior.training import load, train
from refprior.training.loop._begin import State, begin
from refprior.training.store._checkpoint import (
    Checkpoint,
    CheckpointError,
    checkpoint_steps,
    latest_checkpoint,
    load_weights,
    read_checkpoint,
    restore_state,
    state_tensors,
)
from tests import records
from tests.training.recipes import CPU, convolutional

RECIPE = convolutional(steps=4, evaluate_every=2)
TASK = RECIPE.read_task()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("original") / "run"
    train(RECIPE, path, save_every=0.0)
    return path


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    for file in original.rglob("*"):
        if file.is_file():
            target = tmp_path / file.relative_to(original)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(file.read_bytes())
    return tmp_path


def fresh_state() -> State:
    return begin(RECIPE, TASK, CPU)


def restore_latest(run: Path, state: State, *, rename_damaged: bool = False) -> int | None:
    """Go back to the newest checkpoint that can be used; its step."""

    def use(found: Checkpoint) -> int:
        restore_state(state, found)
        return found.summary.step

    return latest_checkpoint(run, use, rename_damaged=rename_damaged)


def forge(run: Path, content: bytes, step: int = 4, **changes: Any) -> None:
    """Replace a checkpoint's tensors and make its checksum right, as an attacker would."""
    path = run / "checkpoints" / f"step-{step:08}.safetensors"
    path.write_bytes(content)
    records.change(path.with_suffix(".json"), size=len(content), sha256=hashlib.sha256(content).hexdigest(), **changes)


def test_the_last_two_are_kept_and_hold_everything(run: Path) -> None:
    assert checkpoint_steps(run) == [4, 3]
    names = {name.partition(".")[0] for name in read_checkpoint(run, 4).tensors}
    parts = {"particles", "teacher", "optimizer", "normalizer", "labeled", "unlabeled", "drawing", "global"}
    assert names == parts | {"fingerprints"}


def test_a_checkpoint_restores_the_normalizer_and_everything_else_exactly(run: Path) -> None:
    state = fresh_state()
    state.normalizer = type(state.normalizer)(torch.zeros(1, 1, 1), torch.ones(1, 1, 1))
    assert restore_latest(run, state) == state.step == 4
    saved = read_checkpoint(run, 4).tensors
    found = state_tensors(state)
    assert found.keys() == saved.keys()
    assert all(tensor.equal(saved[name]) for name, tensor in found.items())
    assert state.normalizer.mean.equal(fresh_state().normalizer.mean)


def test_a_folder_without_checkpoints_has_no_latest(tmp_path: Path) -> None:
    assert restore_latest(tmp_path, fresh_state()) is None


def test_checkpoints_have_the_permissions_of_other_files(run: Path, original: Path) -> None:
    modes = {p.stat().st_mode & 0o777 for p in original.rglob("*") if p.is_file()}
    assert len(modes) == 1


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing", "torn record", "empty record"])
def test_a_damaged_latest_falls_back_with_a_warning(run: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    path = run / "checkpoints" / "step-00000004.safetensors"
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif damage == "missing":
        path.unlink()
    else:
        path.with_suffix(".json").write_text("" if damage == "empty record" else '{"format": 1, "st')
    state = fresh_state()
    assert restore_latest(run, state) == state.step == 3
    assert "step-00000004" in caplog.text
    assert "going back to step 3" in caplog.text


def test_a_damaged_one_no_longer_counts_as_one_of_the_last_two(run: Path) -> None:
    path = run / "checkpoints" / "step-00000004.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    state = fresh_state()
    restore_latest(run, state, rename_damaged=True)
    assert checkpoint_steps(run) == [3]
    assert (run / "checkpoints" / "step-00000004.json.damaged").exists()


def test_a_checkpoint_without_the_optimizers_memory_is_rejected(run: Path, tmp_path: Path) -> None:
    tensors = {name: t for name, t in read_checkpoint(run, 4).tensors.items() if not name.startswith("optimizer.")}
    save_file(tensors, tmp_path / "side")
    forge(run, (tmp_path / "side").read_bytes())
    with pytest.raises(CheckpointError, match="the optimizer's memory is missing"):
        restore_state(fresh_state(), read_checkpoint(run, 4))


def test_resuming_from_the_previous_one_ends_in_the_same_weights(run: Path, original: Path) -> None:
    path = run / "checkpoints" / "step-00000004.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    again = train(RECIPE, run)
    expected = read_checkpoint(original, 4).tensors
    assert all(t.equal(expected[f"teacher.{name}"]) for name, t in again.ema.state_dict().items())
    assert (run / "metrics.jsonl").read_text().count("\n") == (original / "metrics.jsonl").read_text().count("\n")


def test_nothing_usable_is_rejected(run: Path) -> None:
    for path in (run / "checkpoints").glob("*.safetensors"):
        path.write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"no checkpoint in .* can be used: .*step-00000004"):
        restore_latest(run, fresh_state())


def test_another_format_is_rejected_in_words(run: Path) -> None:
    for step in (3, 4):
        content = (run / "checkpoints" / f"step-{step:08}.safetensors").read_bytes()
        forge(run, content, step, format=1)
    with pytest.raises(CheckpointError, match="has format 1, this version of refprior reads format 3"):
        restore_latest(run, fresh_state())


class Payload:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("payload-ran"),))


def header(names: dict[str, Any], size: int | None = None) -> bytes:
    text = json.dumps(names).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text


MALICIOUS = {
    "pickle": pickle.dumps(Payload()),
    "huge header": header({}, 2**40),
    "absurd shape": header({"a": {"dtype": "F32", "shape": [2**40, 2**20], "data_offsets": [0, 16]}}) + b"0" * 16,
    "negative offsets": header({"a": {"dtype": "F32", "shape": [4], "data_offsets": [-16, 0]}}) + b"0" * 16,
    "overlap": header({n: {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]} for n in "ab"}) + b"0" * 16,
    "not json": struct.pack("<Q", 8) + b"\xff" * 8,
    "empty": b"",
}


@pytest.mark.parametrize("kind", MALICIOUS)
def test_malicious_files_run_nothing(run: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run)
    forge(run, MALICIOUS[kind])
    with pytest.raises(CheckpointError, match=r"step-00000004\.safetensors"):
        restore_state(fresh_state(), read_checkpoint(run, 4))
    assert not (run / "payload-ran").exists()


def test_names_that_look_like_paths_are_only_names(run: Path, tmp_path: Path) -> None:
    tensors = {**read_checkpoint(run, 4).tensors, "../../escape": torch.zeros(2), "/etc/evil": torch.zeros(1)}
    side = tmp_path / "side"
    save_file(tensors, side)
    forge(run, side.read_bytes())
    with pytest.raises(CheckpointError, match="expected nothing of that name"):
        restore_state(fresh_state(), read_checkpoint(run, 4))
    assert not (run.parent / "escape").exists()


def test_wrong_shapes_and_streams_are_rejected(run: Path, tmp_path: Path) -> None:
    good = read_checkpoint(run, 4).tensors
    bad = [
        {"particles.prior_logits": torch.zeros(5)},
        {"normalizer.mean": torch.zeros(2, 8, 8)},
        {"normalizer.color": torch.zeros(1)},
        {"optimizer.0.momentum_buffer": torch.zeros(3)},
        {"optimizer.99.momentum_buffer": torch.zeros(3)},
        {"labeled.waiting": torch.tensor([10**6])},
        {"labeled.waiting": torch.tensor([[1], [2]])},
        {"unlabeled.waiting": torch.tensor([0.5])},
        {"drawing.generator": torch.zeros(5, dtype=torch.uint8)},
    ]
    for change in bad:
        side = tmp_path / "side"
        save_file({**good, **change}, side)
        forge(run, side.read_bytes())
        with pytest.raises(CheckpointError, match="does not fit this run"):
            restore_state(fresh_state(), read_checkpoint(run, 4))


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mutated_bytes_raise_only_the_readers_own_error(run: Path, data: st.DataObject) -> None:
    """Header and generators are the dangerous part: mutate there, with the checksum made right."""
    path = run / "checkpoints" / "step-00000003.safetensors"
    content = bytearray(path.read_bytes())
    (length,) = struct.unpack("<Q", content[:8])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, min(len(content), length + 8) - 1))
        content[place] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    original = path.read_bytes()
    forge(run, bytes(content), step=3)
    try:
        restore_state(fresh_state(), read_checkpoint(run, 3))
    except CheckpointError:
        pass
    finally:
        forge(run, original, step=3)


@given(st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_record_is_read_or_rejected(run: Path, content: bytes) -> None:
    (run / "checkpoints" / "step-00000003.json").write_bytes(content)
    with pytest.raises(CheckpointError):
        read_checkpoint(run, 3)


def test_a_checkpoint_of_another_network_is_rejected(run: Path) -> None:
    state = begin(replace(RECIPE, particles=3, method=ReferencePrior()), TASK, CPU)
    with pytest.raises(CheckpointError, match="does not fit this run"):
        restore_state(state, read_checkpoint(run, 4))


def weights_of(run: Path, step: int) -> None:
    raw, ema = (Particles(RECIPE.network, RECIPE.particles) for _ in range(2))
    load_weights(read_checkpoint(run, step), raw=raw, ema=ema)


def test_weights_that_do_not_fit_the_recipe_are_rejected(run: Path, tmp_path: Path) -> None:
    good = read_checkpoint(run, 4).tensors
    bad: list[dict[str, torch.Tensor]] = [
        {**good, "particles.network.0.weight": torch.zeros(5)},
        {**good, "teacher.network.extra": torch.zeros(5)},
        {name: t for name, t in good.items() if not name.startswith("normalizer.")},
        {**good, "normalizer.color": torch.zeros(1)},
    ]
    weights_of(run, 4)
    for tensors in bad:
        save_file(tensors, tmp_path / "side")
        forge(run, (tmp_path / "side").read_bytes())
        with pytest.raises(CheckpointError, match=r"step-00000004\.safetensors does not fit its recipe"):
            weights_of(run, 4)


def test_a_run_with_a_damaged_checkpoint_is_loaded_from_the_one_before_and_left_as_it_is(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = run / "checkpoints" / "step-00000004.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
    loaded = load(run)
    assert "going back to step 3" in caplog.text
    expected = read_checkpoint(run, 3).tensors
    assert all(t.equal(expected[f"teacher.{name}"]) for name, t in loaded.ema.state_dict().items())
    assert [record.step for record in loaded.history] == [2]
    assert {p: p.read_bytes() for p in run.rglob("*") if p.is_file()} == before
