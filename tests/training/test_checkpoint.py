"""The checkpoint reader: damaged, foreign and malicious files get its own error, and run nothing."""

import hashlib
import json
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from refprior.methods import ReferencePrior
from refprior.recipes import named
from refprior.training import _checkpoint as checkpoint
from refprior.training import train
from refprior.training._checkpoint import CheckpointError, read, restore
from refprior.training._loop import State, begin
from refprior.training._run import restore_latest

RECIPE = named(
    "digits_ssl", {"steps": "4", "unlabelled": "8", "labelled": "10", "evaluate_every": "2", "network.width": "4"}
).recipe


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
    return begin(RECIPE, RECIPE.task(), torch.device("cpu"))


def forge(run: Path, content: bytes, step: int = 4, **changes: Any) -> None:
    """Replace a checkpoint's tensors and make its checksum right, as an attacker would."""
    path = run / "checkpoints" / f"step-{step:08}.safetensors"
    path.write_bytes(content)
    record = json.loads(path.with_suffix(".json").read_text())
    record |= {"sha256": hashlib.sha256(content).hexdigest(), **changes}
    path.with_suffix(".json").write_text(json.dumps(record))


def test_the_last_two_are_kept_and_hold_everything(run: Path) -> None:
    assert checkpoint.steps(run) == [4, 3]
    names = {name.partition(".")[0] for name in read(run, 4).tensors}
    assert names == {"particles", "teacher", "optimiser", "labelled", "unlabelled", "drawing", "global"}


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
    assert restore_latest(run, state) is not None
    assert state.step == 3
    assert "step-00000004" in caplog.text
    assert "going back to step 3" in caplog.text


def test_a_damaged_one_no_longer_counts_as_one_of_the_last_two(run: Path) -> None:
    path = run / "checkpoints" / "step-00000004.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    state = fresh_state()
    restore_latest(run, state, set_aside=True)
    assert checkpoint.steps(run) == [3]
    assert (run / "checkpoints" / "step-00000004.json.damaged").exists()


def test_a_checkpoint_without_the_optimisers_memory_is_refused(run: Path, tmp_path: Path) -> None:
    tensors = {name: t for name, t in read(run, 4).tensors.items() if not name.startswith("optimiser.")}
    save_file(tensors, tmp_path / "side")
    forge(run, (tmp_path / "side").read_bytes())
    with pytest.raises(CheckpointError, match="the optimiser's memory is missing"):
        restore(fresh_state(), read(run, 4))


def test_resuming_from_the_previous_one_ends_in_the_same_weights(run: Path, original: Path) -> None:
    path = run / "checkpoints" / "step-00000004.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    again = train(RECIPE, run)
    expected = read(original, 4).tensors
    assert all(t.equal(expected[f"teacher.{name}"]) for name, t in again.ema.state_dict().items())
    assert (run / "metrics.jsonl").read_text().count("\n") == (original / "metrics.jsonl").read_text().count("\n")


def test_nothing_usable_is_refused(run: Path) -> None:
    for path in (run / "checkpoints").glob("*.safetensors"):
        path.write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"no checkpoint in .* can be used: .*step-00000004"):
        restore_latest(run, fresh_state())


def test_another_format_is_refused_in_words(run: Path) -> None:
    for step in (3, 4):
        content = (run / "checkpoints" / f"step-{step:08}.safetensors").read_bytes()
        forge(run, content, step, format=0)
    with pytest.raises(CheckpointError, match="has format 0, this version reads format 1"):
        restore_latest(run, fresh_state())


class Payload:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("/tmp/refprior-payload-ran"),))


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
def test_malicious_files_run_nothing(run: Path, kind: str) -> None:
    marker = Path("/tmp/refprior-payload-ran")
    marker.unlink(missing_ok=True)
    forge(run, MALICIOUS[kind])
    with pytest.raises(CheckpointError, match=r"step-00000004\.safetensors"):
        restore(fresh_state(), read(run, 4))
    assert not marker.exists()


def test_names_that_look_like_paths_are_only_names(run: Path, tmp_path: Path) -> None:
    tensors = {**read(run, 4).tensors, "../../escape": torch.zeros(2), "/etc/evil": torch.zeros(1)}
    side = tmp_path / "side"
    save_file(tensors, side)
    forge(run, side.read_bytes())
    with pytest.raises(CheckpointError, match="expected nothing of that name"):
        restore(fresh_state(), read(run, 4))
    assert not (run.parent / "escape").exists()


def test_wrong_shapes_and_streams_are_refused(run: Path, tmp_path: Path) -> None:
    good = read(run, 4).tensors
    bad = [
        {"particles.prior_logits": torch.zeros(5)},
        {"optimiser.0.momentum_buffer": torch.zeros(3)},
        {"optimiser.99.momentum_buffer": torch.zeros(3)},
        {"labelled.waiting": torch.tensor([10**6])},
        {"labelled.waiting": torch.tensor([[1], [2]])},
        {"unlabelled.waiting": torch.tensor([0.5])},
        {"drawing.generator": torch.zeros(5, dtype=torch.uint8)},
    ]
    for change in bad:
        side = tmp_path / "side"
        save_file({**good, **change}, side)
        forge(run, side.read_bytes())
        with pytest.raises(CheckpointError, match="does not fit this run"):
            restore(fresh_state(), read(run, 4))


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
        restore(fresh_state(), read(run, 3))
    except CheckpointError:
        pass
    finally:
        forge(run, original, step=3)


@given(st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_record_is_read_or_refused(run: Path, content: bytes) -> None:
    (run / "checkpoints" / "step-00000003.json").write_bytes(content)
    with pytest.raises(CheckpointError):
        read(run, 3)


def test_a_checkpoint_of_another_network_is_refused(run: Path) -> None:
    from dataclasses import replace

    other = replace(RECIPE, particles=3, method=ReferencePrior())
    state = begin(other, other.task(), torch.device("cpu"))
    with pytest.raises(CheckpointError, match="does not fit this run"):
        restore(state, read(run, 4))
