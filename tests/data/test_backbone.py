"""Features of photos by a pretrained network: computed once, the same in a saved predictor and in a graph."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import refprior as rp
from refprior.data import Backbone, FewLabels, _backbone, preparation_record, read, read_preparation
from refprior.data._feature_cache import cache_folder, cached_features
from refprior.training import export

COLORS = {"red": (200, 30, 30), "blue": (30, 30, 200), "unlabeled": (100, 40, 40)}


class Tiny(nn.Module):
    """A network of photos that is quick."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 6, 8, stride=8)
        self.calls = 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        found: torch.Tensor = self.layer(images).relu()
        return found


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REFPRIOR_CACHE", str(tmp_path / "cache"))
    random = np.random.RandomState(0)
    for name, color in COLORS.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(6):
            pixels = np.clip(random.randn(20, 30, 3) * 20 + color, 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


def run_on(photos: Path, backbone: Backbone) -> rp.Run:
    from refprior.estimators import classifier_recipes

    data = read(photos, features=backbone, test=0)
    recipes, _ = classifier_recipes(FewLabels(data, labels=None), "components")
    return rp.train(rp.recipes.override(recipes["components"], {"steps": 20, "particles": 2}))


def test_features_are_computed_once_by_content(photos: Path) -> None:
    network = Tiny()
    first = read(photos, features=Backbone(network, 32), test=0)
    calls = network.calls
    assert first.train.inputs.shape == (12, 6)
    (photos / "red/0.png").rename(photos / "red/9.png")  # the same content
    again = read(photos, features=Backbone(network, 32), test=0)
    assert network.calls == calls + 1  # for the width alone
    assert sorted(again.train.inputs[:, 0].tolist()) == sorted(first.train.inputs[:, 0].tolist())
    with torch.no_grad():
        network.layer.weight.mul_(2)
    assert not torch.equal(read(photos, features=Backbone(network, 32), test=0).train.inputs, again.train.inputs)


def test_features_are_those_of_the_network(photos: Path) -> None:
    backbone = Backbone(Tiny(), 16, mean=(1.0, 2.0, 3.0), std=(10.0, 20.0, 30.0))
    images = rp.data.files.read_images([photos / "red/0.png"], (16, 16), color=True)
    normalized = (images - torch.tensor([1.0, 2, 3]).reshape(3, 1, 1)) / torch.tensor([10.0, 20, 30]).reshape(3, 1, 1)
    expected = backbone.module(normalized).mean((2, 3))
    assert torch.allclose(backbone.of_files([photos / "red/0.png"]), expected)


def test_a_predictor_holds_the_backbone(photos: Path, tmp_path: Path) -> None:
    predictor = run_on(photos, Backbone(Tiny(), 32)).predictor()
    files = sorted(photos.glob("*/*.png"))
    expected = predictor.predict_proba(files)
    predictor.save(tmp_path / "model")
    found = rp.load_predictor(tmp_path / "model", backbone=Tiny())
    assert (found.predict_proba(files) == expected).all()
    pictures = [Image.open(file) for file in files]
    assert np.allclose(found.predict_proba(pictures), expected, atol=1e-5)
    Image.new("RGB", (20, 20)).save(photos / "new.png")  # no features of it are in the cache
    with pytest.raises(ValueError, match="computes features by a custom network, Tiny: pass it as backbone="):
        rp.load_predictor(tmp_path / "model").predict([photos / "new.png"])


def test_other_weights_are_rejected(photos: Path) -> None:
    backbone = Backbone(Tiny(), 32)
    record = preparation_record(backbone)
    other = read_preparation(json.loads(json.dumps(record)), module=Tiny())
    assert isinstance(other, Backbone)
    with pytest.raises(ValueError, match="are not those with which the model was trained"):
        other.of_files([photos / "red/0.png"])


def test_an_exported_graph_begins_with_the_images(photos: Path, tmp_path: Path) -> None:
    predictor = run_on(photos, Backbone(Tiny(), 32)).predictor()
    export(predictor, tmp_path / "model.pt2", "torch")
    graph = torch.export.load(tmp_path / "model.pt2").module()
    files = sorted(photos.glob("*/*.png"))
    images = rp.data.files.read_images(files, (32, 32), color=True)
    assert np.allclose(graph(images).numpy(), predictor.predict_proba(files), atol=1e-5)


def test_a_cache_that_cannot_be_used_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("REFPRIOR_CACHE", str(tmp_path))
    (cache_folder() / "features.sqlite3").write_text("this is no database, but long enough to look like a file of one")
    found = cached_features([b"a", b"b"], lambda some: np.ones((len(some), 2)), 2, "features", 1)
    assert found.tolist() == [[1, 1], [1, 1]]
    assert "cannot be used" in caplog.text


def test_without_the_extra_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_backbone, "find_spec", lambda name: None)
    assert _backbone.default_backbone() is None
    with pytest.raises(ValueError, match=r"pip install 'refprior\[features\]'"):
        Backbone()
    with pytest.raises(ValueError, match="timm and torchvision are not installed"):
        Backbone("resnet50")


@pytest.mark.slow
def test_lite0_from_its_package(photos: Path, tmp_path: Path) -> None:
    data = read(photos, features="efficientnet-lite0", test=0)
    assert data.train.inputs.shape == (12, 1280)
    predictor = run_on(photos, Backbone()).predictor()
    predictor.save(tmp_path / "model")
    files = sorted(photos.glob("*/*.png"))
    found = rp.load_predictor(tmp_path / "model").predict_proba(files)
    assert (found == predictor.predict_proba(files)).all()
