"""Graphs: the same probabilities without refprior, for any number of inputs."""

import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas
import pytest
import torch
from torch import Tensor, nn

import refprior as rp
from refprior.data import Identity, Normalizer, PatchComponents, PrincipalComponents, Standardize
from refprior.networks import MLP, SmallCNN, WideResNet
from refprior.particles import Particles
from refprior.training import Predictor, export
from tests.training.test_tokens import WORDS, Bag

CLASSES = tuple("abcdefghij")
Model = tuple[Predictor, Tensor]


def model(make: Callable[[], nn.Module], fit: Callable[[list[Tensor]], Normalizer], shape: tuple[int, ...]) -> Model:
    """Three networks that count differently, on bytes; statistics of batch norm are those of the bytes."""
    images = torch.randint(0, 256, (40, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    particles, normalizer = Particles(make, 3), fit([images])
    with torch.no_grad():
        particles.train()(normalizer(images))
    predictor = Predictor(
        particles=particles.eval().requires_grad_(False),
        normalizer=normalizer,
        classes=CLASSES,
        shape=shape,
        dtype=torch.uint8,
        log_posterior=torch.tensor([0.5, 0.3, 0.2]).log(),
        temperature=1.7,
        log_prior_ratio=torch.linspace(-0.4, 0.4, 10),
        provenance={"seed": 3},
    )
    return predictor, images


def perceptron() -> Model:
    return model(partial(MLP, (1, 8, 8), 10), Standardize().fit, (1, 8, 8))


MODELS: dict[str, Callable[[], Model]] = {
    "MLP": perceptron,
    "SmallCNN": lambda: model(partial(SmallCNN, (1, 8, 8), 10), Standardize(center="pixel").fit, (1, 8, 8)),
    "components": lambda: model(
        partial(MLP, (12,), 10), PrincipalComponents(12, unit_length=True, scale=3.0).fit, (1, 8, 8)
    ),
    "patches": lambda: model(
        partial(MLP, (12,), 10), PatchComponents(12, filters=20, size=3, cells=2, scale=3.0).fit, (3, 9, 8)
    ),
    "WRN-28-2": lambda: model(partial(WideResNet, (3, 32, 32), 10), Standardize().fit, (3, 32, 32)),
}


def run_onnx(file: Path, inputs: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (probabilities,) = session.run(["probabilities"], {"inputs": inputs})
    return np.asarray(probabilities)


def run_torch(file: Path, inputs: np.ndarray) -> np.ndarray:
    return np.asarray(torch.export.load(file).module()(torch.from_numpy(inputs)))


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.thorough] if n in ("patches", "WRN-28-2") else []) for n in MODELS]
)
def test_an_onnx_graph_gives_the_same_probabilities(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    predictor, images = MODELS[name]()
    export(predictor, tmp_path / "model.onnx")
    assert capfd.readouterr() == ("", "")
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]
    for count in (1, 2, 7):
        found = run_onnx(tmp_path / "model.onnx", images[:count].numpy())
        np.testing.assert_allclose(found, predictor.predict_proba(images[:count]), rtol=1e-5)
    assert found.std(0).max() > 1e-3  # the inputs make a difference


@pytest.mark.parametrize("name", ["MLP", "SmallCNN", "components"])
def test_a_torch_graph_gives_the_same_probabilities(name: str, tmp_path: Path) -> None:
    predictor, images = MODELS[name]()
    export(predictor, tmp_path / "model.pt2", "torch")
    for count in (1, 2, 7):
        found = run_torch(tmp_path / "model.pt2", images[:count].numpy())
        np.testing.assert_allclose(found, predictor.predict_proba(images[:count]), rtol=1e-5)


def test_the_names_of_the_classes_and_the_provenance_are_inside(tmp_path: Path) -> None:
    predictor, _ = perceptron()
    predictor = replace(predictor, provenance={"seed": 3, "recipe": {"data": "/home/me/photos", "size": [8, 8]}})
    export(predictor, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    known = {name: json.loads(text) for name, text in session.get_modelmeta().custom_metadata_map.items()}
    without_places = {"seed": 3, "recipe": {"data": "photos", "size": [8, 8]}}
    assert known == {"classes": list(CLASSES), "features": [], "preparation": None, "provenance": without_places}
    (inputs,), (outputs,) = session.get_inputs(), session.get_outputs()
    assert (inputs.type, inputs.shape[1:]) == ("tensor(uint8)", [1, 8, 8])
    assert isinstance(inputs.shape[0], str)  # any number
    assert (outputs.name, outputs.shape[1]) == ("probabilities", 10)
    files = {"classes": "", "provenance": ""}
    export(predictor, tmp_path / "model.pt2", "torch")
    torch.export.load(tmp_path / "model.pt2", extra_files=files)
    assert json.loads(files["classes"]) == list(CLASSES)
    here = str(Path(rp.__file__).parent).encode()  # as in the traces of translated operations
    assert here not in (tmp_path / "model.onnx").read_bytes()
    with zipfile.ZipFile(tmp_path / "model.pt2") as archive:
        assert not any(here in archive.read(name) for name in archive.namelist())


def test_ids_and_a_head_of_a_source_are_exported(tmp_path: Path) -> None:
    """A network with more outputs than classes has those of a source, which are cut."""
    ids = torch.randint(0, WORDS, (7, 5), generator=torch.Generator().manual_seed(0))
    predictor = Predictor(
        particles=Particles(Bag, 2).eval().requires_grad_(False),
        normalizer=Identity().fit([ids]),
        classes=("one",),
        shape=(5,),
        dtype=torch.int64,
        log_posterior=torch.tensor([0.5, 0.5]).log(),
    )
    for found in (predictor, replace(predictor, classes=("one", "two"))):
        export(found, tmp_path / "model.onnx")
        np.testing.assert_allclose(run_onnx(tmp_path / "model.onnx", ids.numpy()), found.predict_proba(ids), rtol=1e-5)


class Branching(nn.Sequential):
    """What it does depends on the values."""

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self[1](self[0](x))
        return outputs if outputs.sum() > 0 else outputs + 1


@pytest.mark.parametrize("kind", ["onnx", "torch"])
def test_a_network_that_is_no_graph_is_refused_in_one_line(kind: Any, tmp_path: Path) -> None:
    predictor, _ = perceptron()
    branching = Particles(lambda: Branching(nn.Flatten(), nn.Linear(64, 10)), 3, execution="loop")
    with pytest.raises(ValueError, match=r"\Athe network cannot be written as a graph: [^\n]+\Z"):
        export(replace(predictor, particles=branching), tmp_path / "model", kind)
    assert not [*tmp_path.iterdir()]


def test_without_onnx_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refprior.training._export.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"\AONNX needs onnx, .* pip install 'refprior\[onnx\]'\Z"):
        export(perceptron()[0], tmp_path / "model.onnx")
    with pytest.raises(ValueError, match="kind must be 'onnx' or 'torch', got 'pickle'"):
        export(perceptron()[0], tmp_path / "model", "pickle")  # type: ignore[arg-type]


def test_a_graph_of_a_table_takes_its_columns(tmp_path: Path) -> None:
    random = np.random.RandomState(0)
    days = np.datetime64("2024-01-01") + random.randint(0, 700, 200)
    city = random.choice(np.array(["Rome", "Oslo", "Lima", None], object), 200)
    age = np.where(random.rand(200) < 0.2, np.nan, random.randn(200))
    frame = pandas.DataFrame({"city": city, "day": days.astype(str), "age": age, "height": random.randn(200)})
    y = np.where(random.rand(200) < 0.3, (city == "Rome").astype(int), -1)
    found = rp.ReferencePriorClassifier(inputs="bins", steps=20, particles=4, random_state=0).fit(frame, y)
    export(found.predictor_, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    frame.loc[0, "city"] = "Paris"  # which training has not seen
    given = {
        "city": frame["city"].fillna("").to_numpy(object),
        "day": (pandas.to_datetime(frame["day"]) - pandas.Timestamp(0)).dt.days.to_numpy(float),
        "age": frame["age"].to_numpy(),
        "height": frame["height"].to_numpy(),
    }
    assert {each.name: each.type for each in session.get_inputs()} == {
        name: "tensor(string)" if name == "city" else "tensor(double)" for name in given
    }
    np.testing.assert_allclose(session.run(None, given)[0], found.predictor_.predict_proba(frame), atol=1e-5)
