"""What one deploys: it predicts as the run does, is saved whole, and takes inputs as users have them."""

import json
import math
import shutil
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest
import torch
from PIL import Image
from scipy import sparse
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import refprior as rp
from refprior.data import Examples, Identity, PrincipalComponents, Standardize, task_from_arrays
from refprior.methods import InformationOnly
from refprior.networks import MLP
from refprior.particles import Particles
from refprior.posterior import negative_log_likelihood, predictive, uncertainty
from refprior.training import Predictor, Run, load_predictor, train
from refprior.views import Unchanged
from tests import records
from tests.cli.running import Program
from tests.training.recipes import Dropped, Own, colors, convolutional, perceptron
from tests.training.test_tokens import WORDS
from tests.training.test_tokens import recipe as tokens

FEATURES = 6


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(convolutional(seed=3, steps=40), tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def folded() -> Run:
    return train(convolutional(seed=3, steps=40, folds=2))


@pytest.fixture(scope="module")
def predictor(run: Run) -> Predictor:
    return run.predictor()


def vectors(**changes: Any) -> Predictor:
    """Three perceptrons on rows of six floats; not trained."""
    make = partial(MLP, (FEATURES,), 3, hidden=8)
    inputs = torch.from_numpy(rows(200))
    settings: dict[str, Any] = {
        "particles": Particles(make, 3).eval().requires_grad_(False),
        "normalizer": Standardize().fit([inputs]),
        "classes": ("a", "b", "c"),
        "shape": (FEATURES,),
        "dtype": torch.float32,
        "log_posterior": torch.tensor([0.5, 0.3, 0.2]).log(),
        "network": {"type": "refprior.networks.MLP", "shape": [FEATURES], "classes": 3, "hidden": 8},
    }
    return Predictor(**settings | changes)


def rows(count: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, FEATURES)).astype(np.float32)


def named(**changes: Any) -> Predictor:
    return vectors(features=tuple("uvwxyz"), **changes)


def assert_same(one: Predictor, other: Predictor, inputs: Any) -> None:
    """Bit for bit."""
    np.testing.assert_array_equal(one.log_probabilities(inputs), other.log_probabilities(inputs))
    np.testing.assert_array_equal(one.predict_proba(inputs), other.predict_proba(inputs))
    assert all(map(np.array_equal, one.uncertainty(inputs), other.uncertainty(inputs)))


@pytest.mark.parametrize("weights", ["ema", "raw"])
@pytest.mark.parametrize("weighting", ["prior", "likelihood"])
def test_it_predicts_what_the_run_does(run: Run, folded: Run, weights: Any, weighting: Any) -> None:
    run = folded if weighting == "likelihood" else run
    images = run.task.held_out.inputs[:1500]
    how = {"ema": weights == "ema", "weighting": weighting}
    found = run.predictor(**how)
    np.testing.assert_array_equal(found.predict_proba(images), run.predict_proba(images, **how))
    assert torch.equal(found.log_probabilities(images), run.log_probabilities(images, ema=weights == "ema"))
    assert (found.predict(images) == run.predict(images, **how)).all()
    assert all(map(torch.equal, found.uncertainty(images), run.uncertainty(images, **how)))
    assert (found.provenance["weights"], found.provenance["weighting"]) == (weights, weighting)


def test_names_are_those_of_the_most_probable_classes(run: Run) -> None:
    images = run.task.held_out.inputs[:50]
    expected = [run.data.classes[c] for c in run.predict_proba(images).argmax(1)]
    assert run.predict(images).tolist() == expected
    scores = run.predictor().provenance["scores"]["test"]
    right = run.predict(run.task.held_out.inputs) == np.array(run.data.classes)[run.task.held_out.labels.numpy()]
    assert scores["accuracy"] == pytest.approx(right.mean())


@pytest.mark.parametrize("saved", ["run", "loaded"])
def test_what_was_saved_reads_back_bit_for_bit(run: Run, saved: str, tmp_path: Path) -> None:
    assert run.path is not None
    found = (run if saved == "run" else rp.load(run.path)).predictor()
    ratio = torch.linspace(-0.5, 0.5, 10)
    found = replace(found, temperature=1.5, log_prior_ratio=ratio)
    found.save(tmp_path / "deep" / "model")
    again = load_predictor(tmp_path / "deep" / "model")
    assert_same(again, found, run.task.held_out.inputs)
    assert again.provenance == json.loads(json.dumps(found.provenance))
    assert again.provenance["recipe"] == json.loads(run.recipe.to_json())
    assert (again.classes, again.shape, again.dtype) == (run.data.classes, run.data.shape, torch.uint8)
    assert sorted(p.name for p in (tmp_path / "deep" / "model").iterdir()) == ["model.safetensors", "predictor.json"]
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["model"]


def test_a_run_folder_is_a_predictor_too(run: Run, predictor: Predictor) -> None:
    assert run.path is not None
    assert_same(load_predictor(run.path), predictor, run.task.held_out.inputs[:50])


@pytest.mark.parametrize("make", [Own, Dropped])
def test_a_network_of_the_users_own_is_handed_in(make: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trained = train(perceptron(network=make, steps=3), tmp_path / "run")
    trained.predictor().save(tmp_path / "model")
    images = trained.task.held_out.inputs[:20]
    for folder in ("model", "run"):
        with pytest.raises(
            ValueError,
            match=rf"\A[^\n]*the custom .*{make.__name__}.*: pass network=…, or --custom FILE.py on the command line\Z",
        ):
            load_predictor(tmp_path / folder)
        assert_same(load_predictor(tmp_path / folder, network=make), trained.predictor(), images)
    assert not caplog.text
    with pytest.raises(ValueError, match=r"model\.safetensors does not fit predictor\.json"):
        load_predictor(tmp_path / "model", network=partial(Own, hidden=7))


def test_a_network_that_vmap_cannot_run_is_saved_as_a_loop(tmp_path: Path) -> None:
    class Branching(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            outputs: Tensor = self[0](x)
            return outputs if outputs.sum() > 0 else outputs + 1

    def make() -> nn.Module:
        return Branching(nn.Linear(FEATURES, 3))

    found = vectors(particles=Particles(make, 3), network={"own": "Branching"})
    found.save(tmp_path / "model")
    assert records.content(tmp_path / "model" / "predictor.json")["execution"] == "loop"
    assert_same(load_predictor(tmp_path / "model", make), found, rows(5))


def test_saving_replaces_a_predictor_and_nothing_else(tmp_path: Path, run: Run) -> None:
    vectors().save(tmp_path / "model")
    vectors(temperature=2.0).save(tmp_path / "model")
    assert load_predictor(tmp_path / "model").temperature == 2
    (tmp_path / "empty").mkdir()
    vectors().save(tmp_path / "empty")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").touch()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "model")
    assert run.path is not None
    refused = {
        "photos": "holds cat.png and is no predictor",
        "file": "is a file",
        "link": "is a link",
        run.path: "holds",
    }
    for name, words in refused.items():
        with pytest.raises(ValueError, match=words):
            vectors().save(tmp_path / str(name))
    assert (tmp_path / "photos" / "cat.png").exists()


def test_a_predictor_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors().save(tmp_path / "model")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("refprior.training._predictor.write_record", full)
    with pytest.raises(OSError, match="No space left"):
        vectors(temperature=3.0).save(tmp_path / "model")
    assert load_predictor(tmp_path / "model").temperature == 1
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def cut(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-5])


def flipped(folder: Path) -> None:
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-3] ^= 1
    (folder / "model.safetensors").write_bytes(content)


def edited(folder: Path) -> None:
    file = folder / "predictor.json"
    file.write_text(file.read_text().replace('"temperature": 1.0', '"temperature": 2.0'))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut": (cut, r"model\.safetensors is damaged"),
    "flipped": (flipped, r"model\.safetensors is damaged"),
    "no tensors": (lambda f: (f / "model.safetensors").unlink(), r"model\.safetensors is missing"),
    "edited": (edited, r"predictor\.json is damaged or was edited"),
    "no record": (lambda f: (f / "predictor.json").unlink(), "neither a predictor nor a run folder"),
    "empty record": (lambda f: (f / "predictor.json").write_text(""), r"predictor\.json is not valid JSON"),
    "gone": (shutil.rmtree, "neither a predictor nor a run folder"),
    "format": (lambda f: records.change(f / "predictor.json", format=99), "has format 99"),
    "particles": (lambda f: records.change(f / "predictor.json", particles=10**9), "is of 1000000000 particles"),
    "classes": (lambda f: records.change(f / "predictor.json", classes=["a"] * 4), "gives 3 outputs for 4 classes"),
    "shape": (lambda f: records.change(f / "predictor.json", shape=[10**6, 10**6]), "the folder is damaged"),
    "temperature": (lambda f: records.change(f / "predictor.json", temperature=-1.0), "temperature must be above 0"),
    "stranger": (
        lambda f: records.change(f / "predictor.json", network={"type": "os.system"}),
        r"predictor\.json: network names 'os\.system', which is not part of refprior\.networks",
    ),
    "other room": (
        lambda f: records.change(f / "predictor.json", network={"type": "refprior.methods.FixMatch"}),
        r"predictor\.json: network names",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_or_foreign_folder_is_rejected_in_one_line(name: str, tmp_path: Path) -> None:
    vectors().save(tmp_path / "model")
    damage, words = DAMAGES[name]
    damage(tmp_path / "model")
    with pytest.raises(ValueError, match=rf"\A[^\n]*model[^\n]*{words}[^\n]*\Z"):
        load_predictor(tmp_path / "model")


def test_temperature_and_class_shares_are_what_they_say() -> None:
    ratio = torch.tensor([0.3, -0.2, 0.1])
    found, plain, inputs = vectors(temperature=2.5, log_prior_ratio=ratio), vectors(), rows(9)
    log_p = np.log(plain.predict_proba(inputs)) / 2.5 + ratio.numpy()
    expected = np.exp(log_p) / np.exp(log_p).sum(1, keepdims=True)
    np.testing.assert_allclose(found.predict_proba(inputs), expected, rtol=1e-5)
    assert all(map(np.array_equal, found.uncertainty(inputs), plain.uncertainty(inputs)))
    np.testing.assert_array_equal(found.log_probabilities(inputs), plain.log_probabilities(inputs))
    mixed = predictive(torch.from_numpy(plain.log_probabilities(inputs)), plain.log_posterior).exp()
    np.testing.assert_array_equal(plain.predict_proba(inputs), mixed.numpy())


@pytest.mark.parametrize("ratio", [None, torch.tensor([0.5, 0.0, -0.5])])
@pytest.mark.parametrize("true", [0.5, 3.0])
def test_calibration_finds_the_temperature_that_made_the_labels(true: float, ratio: Tensor | None) -> None:
    plain, inputs = vectors(log_prior_ratio=ratio), rows(40_000)
    p = torch.as_tensor(replace(plain, temperature=true).predict_proba(inputs))
    labels = torch.multinomial(p, 1, generator=torch.Generator().manual_seed(0))[:, 0]
    part = Examples(torch.from_numpy(inputs), labels)
    found = plain.calibrated(part)
    assert found.temperature == pytest.approx(true, rel=0.15)
    said = found.provenance["calibration"]
    losses = {
        name: negative_log_likelihood(torch.as_tensor(who.predict_proba(inputs)).log(), labels).double().mean().item()
        for name, who in {"before": plain, "after": found}.items()
    }
    assert said["negative_log_likelihood"] == pytest.approx(losses, abs=1e-5)
    assert losses["after"] < losses["before"]
    assert (said["part"], said["count"], said["temperature"]) == ("examples", 40_000, found.temperature)
    near = [replace(found, temperature=found.temperature * factor).calibrated(part).temperature for factor in (0.5, 2)]
    assert near == pytest.approx([found.temperature] * 2, rel=1e-4)


def test_calibration_names_the_part_and_rejects_an_empty_one(run: Run, predictor: Predictor) -> None:
    part = run.task.validation
    assert part is not None
    found = predictor.calibrated(part)
    assert found.provenance["calibration"]["part"] == "validation"
    assert found.predict_proba(part.inputs[:3]).shape == (3, 10)
    with pytest.raises(ValueError, match="calibration needs inputs with labels: the part is empty"):
        predictor.calibrated(part[torch.empty(0, dtype=torch.long)])
    with pytest.raises(ValueError, match="calibration label 10 at index 0 is outside 0 … 9"):
        predictor.calibrated(Examples(part.inputs[:1], torch.tensor([10])))


def test_a_temperature_without_a_limit_is_said(
    predictor: Predictor, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    right = torch.as_tensor(predictor.predict_proba(run.task.held_out.inputs)).argmax(1)
    predictor.calibrated(Examples(run.task.held_out.inputs, right))
    assert "the temperature is at the limit of 0.01" in caplog.text


KINDS: dict[str, Callable[[np.ndarray], Any]] = {
    "float64": lambda x: x.astype(np.float64),
    "big endian": lambda x: x.astype(">f4"),
    "read only": lambda x: np.frombuffer(x.tobytes(), np.float32).reshape(x.shape),
    "backwards": lambda x: x[::-1].copy()[::-1],
    "list": lambda x: x.tolist(),
    "tuple of rows": tuple,
    "tensor": torch.from_numpy,
    "double tensor": lambda x: torch.from_numpy(x).double(),
    "csr": sparse.csr_matrix,
    "coo": sparse.coo_array,
    "pandas": pandas.DataFrame,
    "polars": lambda x: polars.DataFrame(x, schema=list("abcdef")),
}


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_of_every_kind_are_taken(kind: str) -> None:
    found, inputs = vectors(), rows(1030)
    np.testing.assert_array_equal(found.predict_proba(KINDS[kind](inputs)), found.predict_proba(inputs))


@pytest.mark.parametrize("kind", [pandas.DataFrame, polars.DataFrame])
def test_columns_are_found_by_their_names(kind: Any) -> None:
    inputs, names = rows(1030), "uvwxyz"
    columns = {name: inputs[:, place].astype(np.float64) for place, name in enumerate(names)}
    mixed = {"id": ["text"] * len(inputs), **{name: columns[name] for name in "zxwvuy"}}
    found = named()
    np.testing.assert_array_equal(found.predict_proba(kind(mixed)), found.predict_proba(inputs))
    wrong: dict[str, tuple[dict[str, Any], str]] = {
        "missing": (
            {n: columns[n] for n in "uvwx"},
            "given inputs have no column 'y' and 1 more; they have u, v, w, x",
        ),
        "text": (
            {**columns, "w": ["a"] * len(inputs)},
            "column 'w' of the given inputs holds something else than numb",
        ),
        "nan": ({**columns, "w": [*[1.0] * 1025, None, *[1.0] * 4]}, "column 'w' .* is not finite in row 1025"),
    }
    for given, words in wrong.values():
        with pytest.raises(ValueError, match=words):
            found.predict_proba(kind(given))
    with pytest.raises(ValueError, match="given inputs have 7 features, those of the training 6"):
        vectors().predict_proba(kind(mixed))


def test_a_column_twice_is_rejected() -> None:
    frame = pandas.DataFrame(rows(3), columns=list("uvwxyz"))
    with pytest.raises(ValueError, match="given inputs have the column 'u' twice"):
        named().predict_proba(pandas.concat([frame, frame["u"]], axis=1))


def test_dates_are_no_numbers() -> None:
    frame = pandas.DataFrame(rows(3), columns=list("uvwxyz")).assign(v=pandas.Timestamp("2020-01-01"))
    with pytest.raises(ValueError, match="column 'v' of the given inputs holds something else than numbers"):
        named().predict_proba(frame)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, pandas.DataFrame, torch.from_numpy, np.ndarray.tolist])
def test_another_number_of_features_is_rejected_with_the_numbers(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"\Agiven inputs have 5 features, those of the training 6\Z"):
        vectors().predict_proba(kind(rows(3)[:, :5]))


@pytest.mark.parametrize(
    "empty", [[], (), np.empty((0, FEATURES)), torch.empty(0, FEATURES)], ids=lambda x: type(x).__name__
)
def test_nothing_gives_nothing(empty: Any) -> None:
    found = vectors()
    assert found.predict_proba(empty).shape == (0, 3)
    assert found.predict(empty).shape == (0,)
    assert tuple(found.log_probabilities(empty).shape) == (3, 0, 3)
    assert [len(part) for part in found.uncertainty(empty)] == [0, 0, 0]
    with pytest.raises(ValueError, match="given inputs have 5 features"):
        found.predict(np.empty((0, 5)))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_are_none_are_rejected(value: float) -> None:
    inputs = rows(3)
    inputs[1, 2] = value
    with pytest.raises(ValueError, match=r"given inputs are not finite as torch\.float32"):
        vectors().predict(inputs)


def test_many_rows_do_not_hold_all_particles() -> None:
    """What torch makes on the way stays of the size of a block, and so does what numpy holds besides the result."""
    many = Particles(partial(MLP, (FEATURES,), 3, hidden=2), 40).eval().requires_grad_(False)
    found = vectors(particles=many, log_posterior=torch.zeros(40).log_softmax(0))
    inputs = np.zeros((200_000, FEATURES), np.float32)
    with Sizes():
        found.predict_proba(inputs[:1])  # imports that torch puts off
    tracemalloc.start()
    with Sizes() as sizes:
        assert found.predict_proba(inputs).shape == (200_000, 3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12e6
    assert max(size for size in sizes.seen if size != 200_000 * 3) <= 40 * 1024 * 3


MANY = """
import resource
import numpy, torch
from refprior.particles import Particles
from refprior.networks import MLP
from tests.training.test_predictor import FEATURES, vectors

many = Particles(lambda: MLP((FEATURES,), 3, hidden=8), 40).eval().requires_grad_(False)
found = vectors(particles=many, log_posterior=torch.zeros(40).log_softmax(0))
inputs = numpy.ones((400_000, FEATURES), numpy.float32)
found.predict_proba(inputs[:5000])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found.predict_proba(inputs)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss")
def test_many_rows_do_not_tear_memory_to_pieces() -> None:
    """The result takes 5 MB; small results kept between the large tensors of blocks would hold 100 MB."""
    with Program(MANY) as process:
        said, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert int(said) < 40_000  # kB


class Sizes(TorchDispatchMode):
    """How many numbers everything has that torch makes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and func is not torch.ops.aten.detach.default:
            self.seen.append(result.numel())
        return result


@pytest.fixture(scope="module")
def colored() -> Predictor:
    return train(perceptron(task=colors(), network=partial(MLP, (3, 8, 8), 2), steps=3)).predictor()


def test_files_and_pillow_images_are_taken(colored: Predictor, predictor: Predictor, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), np.uint8)
    pictures = [Image.fromarray(p) for p in pixels]
    for number, picture in enumerate(pictures):
        picture.save(tmp_path / f"{number}.png")
    files = sorted(tmp_path.glob("*.png"))
    expected = colored.predict_proba(pixels.transpose(0, 3, 1, 2))
    for same in (files, [str(file) for file in files], pictures):
        np.testing.assert_array_equal(colored.predict_proba(same), expected)
    for gray in (files, pictures):  # the model of digits takes one channel
        assert predictor.predict_proba(gray).shape == (4, 10)
    np.testing.assert_array_equal(predictor.predict_proba(files), predictor.predict_proba(pictures))
    large = [picture.resize((31, 17)).convert("RGBA") for picture in pictures]
    large[0].save(tmp_path / "large.png")
    np.testing.assert_array_equal(
        colored.predict_proba([tmp_path / "large.png"]), colored.predict_proba([large[0].convert("RGB")])
    )


def test_what_is_no_picture_is_rejected_by_its_name(colored: Predictor, tmp_path: Path) -> None:
    (tmp_path / "torn.png").write_bytes(b"\x89PNG\r\n\x1a\n123")
    with pytest.raises(ValueError, match=r"\A[^\n]*torn\.png: not a readable image[^\n]*\Z"):
        colored.predict([tmp_path / "torn.png"])
    with pytest.raises(ValueError, match=r"nowhere\.png"):
        colored.predict(["nowhere.png"])
    with pytest.raises(ValueError, match="all files, all Pillow images, or all numbers"):
        colored.predict(["nowhere.png", Image.new("RGB", (8, 8))])
    with pytest.raises(ValueError, match="a picture of mode F has no scale of 8 bits"):
        colored.predict([Image.new("F", (8, 8))])
    with pytest.raises(ValueError, match="given inputs must be an array"):
        vectors().predict(["nowhere.png"])


@pytest.mark.parametrize("one", ["a.png", Path("a.png"), Image.new("RGB", (8, 8))], ids=["name", "path", "picture"])
def test_one_picture_is_a_list_too(colored: Predictor, one: Any) -> None:
    with pytest.raises(ValueError, match="must be a list, of one file or picture too"):
        colored.predict(one)


def test_text_is_no_number(predictor: Predictor) -> None:
    with pytest.raises(ValueError, match="a list of numbers: got text"):
        predictor.predict(np.array([["1", "2"]]))


@pytest.mark.parametrize("execution", ["vectorized", "loop"])
def test_an_id_beyond_the_embedding_is_rejected_in_one_line(execution: Any) -> None:
    run = train(tokens(steps=2, execution=execution))
    found, ids = run.predictor(), run.task.held_out.inputs[:3].clone()
    frame = pandas.DataFrame(ids.numpy().astype(float))
    np.testing.assert_array_equal(found.predict_proba(frame), found.predict_proba(ids))
    for wrong in (WORDS + 17, -1):
        ids[1, 2] = wrong
        for call in (found.predict, run.predict, run.log_probabilities):
            with pytest.raises(ValueError, match=rf"\Agiven inputs are [^\n]*{wrong}[^\n]* does not take them all"):
                call(ids)


def test_components_and_whole_numbers_are_part_of_it(tmp_path: Path) -> None:
    inputs = PrincipalComponents(count=12, unit_length=True)
    found = train(perceptron(inputs=inputs, network=partial(MLP, (12,), 10), steps=3)).predictor()
    found.save(tmp_path / "model")
    images = np.random.default_rng(0).integers(0, 256, (20, 1, 8, 8), np.uint8)
    assert_same(load_predictor(tmp_path / "model"), found, images)


def test_outputs_without_names_are_not_called_by_any() -> None:
    run = train(perceptron(method=InformationOnly(), readout="consensus", steps=2))
    for call in (run.predictor, lambda: run.predict(run.task.unlabeled[:2])):
        with pytest.raises(ValueError, match="the outputs of this run have no names"):
            call()
    assert run.predict_proba(run.task.unlabeled[:2]).shape == (2, 10)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"temperature": 0.0}, "temperature must be above 0"),
        ({"log_posterior": torch.zeros(2)}, "log_posterior must be 3 numbers"),
        ({"log_prior_ratio": torch.zeros(2)}, "log_prior_ratio must be 3 numbers"),
        ({"log_prior_ratio": torch.full((3,), math.nan)}, "log_prior_ratio must be 3 numbers"),
        ({"features": ("a", "b")}, r"2 names of features do not fit inputs of \(6,\)"),
    ],
)
def test_parts_that_do_not_fit_are_rejected(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        vectors(**change)


def test_the_split_of_uncertainty_is_that_of_the_mixture() -> None:
    found, inputs = vectors(), rows(2050)
    log_p = torch.from_numpy(found.log_probabilities(inputs))
    for mine, expected in zip(found.uncertainty(inputs), uncertainty(log_p, found.log_posterior), strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-6)


def test_a_predictor_holds_no_data(run: Run, predictor: Predictor, tmp_path: Path) -> None:
    predictor.save(tmp_path / "model")
    assert (tmp_path / "model" / "model.safetensors").stat().st_size < 1.1 * 4 * sum(
        tensor.numel() for tensor in predictor.particles.state_dict().values()
    )
    text = (tmp_path / "model" / "predictor.json").read_text()
    assert str(tmp_path) not in text
    assert str(run.path) not in text


def test_a_loaded_run_without_its_parts_says_what_they_were(tmp_path: Path) -> None:
    task = task_from_arrays((rows(9), np.arange(9) % 3), rows(30))
    recipe = perceptron(task=task, network=partial(MLP, (FEATURES,), 3), weak=Unchanged(), strong=Unchanged(), steps=2)
    train(recipe, tmp_path / "run").predictor().save(tmp_path / "one")
    rp.load(tmp_path / "run").predictor().save(tmp_path / "two")
    one, two = (records.content(tmp_path / name / "predictor.json") for name in ("one", "two"))
    assert one["provenance"] == two["provenance"]
    assert one["provenance"]["recipe"]["task"] == {"own": "refprior.data._task.Task"}


def test_bytes_of_vectors_and_identity_are_taken_from_frames() -> None:
    inputs = np.random.default_rng(0).integers(0, 256, (5, FEATURES), np.uint8)
    found = vectors(dtype=torch.uint8, normalizer=Identity().fit([torch.from_numpy(inputs)]))
    for same in (pandas.DataFrame(inputs), pandas.DataFrame(inputs.astype(float)), sparse.csr_matrix(inputs)):
        np.testing.assert_array_equal(found.predict_proba(same), found.predict_proba(inputs))


def test_labels_come_back_as_they_were_given(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(60, 5)).astype(np.float32), np.arange(60) % 3
    names = np.array(["low", "mid", "2"])
    for labels in (y, names[y], y.astype(np.uint8), y.astype(str)):
        task = task_from_arrays((x[:12], labels[:12]), x[12:], (x[12:], labels[12:]))
        trained = train(perceptron(task=task, network=partial(MLP, (5,), 3), weak=Unchanged(), strong=Unchanged()))
        trained.predictor().save(tmp_path / "model")
        kind = np.int64 if labels.dtype.kind in "iu" else np.str_
        for found in (
            trained.predict(x),
            trained.predictor().predict(x),
            load_predictor(tmp_path / "model").predict(x),
        ):
            assert found.dtype.type is kind
            assert set(found.tolist()) <= set(labels.tolist())


def test_labels_of_files_come_back_as_they_were_given(tmp_path: Path) -> None:
    rows = "\n".join(f"{i % 7},{i % 3},{7 + i % 2}" for i in range(40))
    for name, text in {"numbers": rows, "names": rows.replace(",7\n", ",a\n").replace(",8", ",b")}.items():
        (tmp_path / f"{name}.csv").write_text(f"u,v,label\n{text}\n")
    expected: dict[str, set[Any]] = {"numbers": {7, 8}, "names": {"a", "b"}}
    for name, labels in expected.items():
        task = rp.data.FewLabels(str(tmp_path / f"{name}.csv"), labels=8)
        trained = train(perceptron(task=task, network=partial(MLP, (2,), 2), weak=Unchanged(), strong=Unchanged()))
        assert set(trained.predict(trained.task.unlabeled).tolist()) <= labels


def test_arrays_give_arrays_and_tensors_tensors(run: Run) -> None:
    tensors = run.task.held_out.inputs[:4]
    for who in (run, run.predictor()):
        for given, kind in ((tensors, torch.Tensor), (tensors.numpy(), np.ndarray), (tensors.tolist(), np.ndarray)):
            assert isinstance(who.predict_proba(given), kind)
            assert isinstance(who.log_probabilities(given), kind)
            assert all(isinstance(part, kind) for part in who.uncertainty(given))
            assert isinstance(who.predict(given), np.ndarray)
    assert isinstance(run.posterior(weighting="prior"), np.ndarray)


def test_a_torch_dataset_is_a_source_of_a_task() -> None:
    x, y = torch.from_numpy(rows(60)), torch.arange(60) % 3
    parts = [torch.utils.data.TensorDataset(x[part], y[part]) for part in (slice(12), slice(12, 50), slice(50, 60))]
    found = task_from_arrays(parts[0], parts[1], parts[2], validation=parts[2])
    same = task_from_arrays((x[:12], y[:12]), x[12:50], (x[50:], y[50:]), validation=(x[50:], y[50:]))
    assert found.fingerprint() == same.fingerprint()
    recipe = perceptron(task=found, network=partial(MLP, (FEATURES,), 3), weak=Unchanged(), strong=Unchanged())
    assert train(recipe).predict(x).dtype == np.int64
