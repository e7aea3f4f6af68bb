"""The page of particles: its numbers against the geometry, and itself in a browser without a display."""

import base64
import html
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from refprior.cli import main
from refprior.data import Examples
from refprior.geometry import embedding, information_of_tuples, squared_distances
from refprior.recipes import named
from refprior.report import write_embedding
from refprior.report._embed import summary
from refprior.report._film import film_figure
from refprior.report._scene import affordable_order, scene
from refprior.training import train
from refprior.training._snapshot import Snapshot, Trajectory
from tests import records
from tests.report.folders import write_header
from website import chromium

NAME = "<!--<script></script>"  # of a class: it would blank the page
FLAGS = [
    *chromium.FLAGS,
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--window-size=1200,800",
    "--virtual-time-budget=20000",
]


def film(path: Path, particles: int = 60, images: int = 30, classes: int = 3, seed: int = 0) -> Trajectory:
    """Particles that become more certain: steps 0, 1, 10 and 20."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(particles, images, classes, generator=generator)
    probe = torch.randint(0, 256, (images, 1, 8, 8), generator=generator, dtype=torch.uint8)
    log_prior = torch.zeros(particles).log_softmax(0)
    shots = tuple(
        Snapshot(s, (c * logits).log_softmax(-1), log_prior) for s, c in ((0, 0.1), (1, 1.0), (10, 3), (20, 9))
    )
    write_header(path, {"steps": 20, "seed": 0, "method": {"order": 2}})
    return Trajectory(path, Examples(probe, torch.arange(images) % classes), ("a", "b", NAME)[:classes], shots)


def page_data(page: Path) -> dict[str, Any]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_the_page_holds_distances_and_information(tmp_path: Path) -> None:
    one = film(tmp_path / "run")
    seen = write_embedding([one], tmp_path / "page.html")
    data = page_data(tmp_path / "page.html")
    (run,) = data["runs"]
    points = np.frombuffer(base64.b64decode(run["coordinates"]), np.float32).reshape(4, 60, 3)
    np.testing.assert_allclose(points, seen.clouds[0].coordinates, atol=1e-6)
    for number, shot in enumerate(one.snapshots):
        true = squared_distances(embedding(shot.log_p), embedding(shot.log_p)).numpy()
        drawn = np.square(points[number][:, None] - points[number]).sum(-1)
        assert (drawn <= true + 1e-5).all()  # a projection never lengthens
        information = information_of_tuples(shot.log_p, shot.log_prior, 2).mean().item()
        assert run["information"][number] == pytest.approx(information, abs=1e-5)
    first = seen.clouds[0].coordinates[3]
    right = embedding(torch.nn.functional.one_hot(one.probe.labels, 3).float().log())
    apart = squared_distances(right[None], embedding(one.snapshots[3].log_p)).numpy()[0]
    assert (np.square(first - np.array(data["landmarks"]["truth"])).sum(-1) <= apart + 1e-5).all()
    squared = squared_distances(right[None], embedding(one.snapshots[3].log_p).mean(0, keepdim=True)).item()
    assert np.square(data["landmarks"]["truth"]).sum() + data["distances"]["truth"] ** 2 == pytest.approx(squared)
    assert list(data["landmarks"]) == ["truth", "always a", "always b", f"always {NAME}"]
    assert data["explained"] == pytest.approx(seen.explained)
    assert data["classes"] == ["a", "b", NAME]
    assert run["steps"] == [0, 1, 10, 20]


def test_the_shown_predictions_are_those_of_the_shown_images(tmp_path: Path) -> None:
    one = film(tmp_path / "run")
    seen = scene([one], ["run"], [2])
    index = [i for image in seen.inputs for i in range(30) if torch.equal(image, one.probe.inputs[i])]
    assert sorted(seen.labels) == [0, 0, 0, 1, 1, 1, 2, 2]
    torch.testing.assert_close(torch.from_numpy(seen.clouds[0].predictions[2]), one.snapshots[2].log_p[:, index].exp())


def test_figure_and_film_are_written(tmp_path: Path) -> None:
    picture, animation = tmp_path / "deep" / "spread.png", tmp_path / "spread.gif"
    write_embedding([film(tmp_path / "run")], tmp_path / "page.html", picture, animation)
    with Image.open(picture) as drawn, Image.open(animation) as frames:
        assert drawn.size[0] > 500
        assert frames.n_frames == 4  # type: ignore[attr-defined]


def test_the_middle_is_a_tenth_of_the_steps_between_the_ends(tmp_path: Path) -> None:
    one = film(tmp_path / "run")
    few = replace(one, snapshots=one.snapshots[::3])
    for shown, middle in ((one, 1), (replace(one, snapshots=one.snapshots[1:]), 1), (few, None)):
        cloud = write_embedding([shown], tmp_path / "page.html", tmp_path / "p.png").clouds[0]
        assert (cloud.middle, page_data(tmp_path / "page.html")["runs"][0]["middle"]) == (middle, middle)
    titles = [axes.get_title() for axes in film_figure(scene([few], ["run"], [2])).axes]
    assert [title.partition(",")[0] for title in titles] == ["step 0", "step 20"]  # words, not colors, say which


def test_several_runs_have_names_that_tell_them_apart(tmp_path: Path) -> None:
    one, other = film(tmp_path / "x" / "run"), film(tmp_path / "y" / "run")
    fewer = replace(other, snapshots=other.snapshots[1:])
    seen = write_embedding([one, fewer], tmp_path / "page.html")
    assert [run["name"] for run in page_data(tmp_path / "page.html")["runs"]] == ["x/run", "y/run"]
    assert summary(seen).startswith("x/run: 60 particles, order 2: ")
    np.testing.assert_allclose(seen.clouds[0].coordinates[1:], seen.clouds[1].coordinates)
    with pytest.raises(ValueError, match=r"a run is given twice: .*run, .*run"):
        write_embedding([one, one], tmp_path / "page.html")


def test_paths_that_cannot_be_written_are_refused_first(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    with pytest.raises(ValueError, match=r"is a folder: give a file name"):
        write_embedding([], tmp_path)
    for name in ("p.jpg", "p"):
        with pytest.raises(ValueError, match=f"the picture must be a .png file, got {name}"):
            write_embedding([], page, tmp_path / name)
    with pytest.raises(ValueError, match=r"the animation must be a .gif file, got film.mp4"):
        write_embedding([], page, animation=tmp_path / "film.mp4")
    assert not list(tmp_path.iterdir())


def test_without_plotly_nothing_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ValueError, match="the page needs plotly, which is not installed: pip install plotly"):
        write_embedding([], tmp_path / "page.html")


def test_bad_input_is_refused_in_words(tmp_path: Path) -> None:
    one, other = film(tmp_path / "one"), film(tmp_path / "other", seed=1)
    with pytest.raises(
        ValueError, match=r"one .* and .*other .* are predictions on different inputs: embed them separately"
    ):
        write_embedding([one, other], tmp_path / "page.html")
    with pytest.raises(ValueError, match="3 components need at least 4 particles, got 3"):
        write_embedding([film(tmp_path / "few", particles=3)], tmp_path / "page.html")
    with pytest.raises(ValueError, match="need at least 2 classes"):
        write_embedding([film(tmp_path / "single", classes=1)], tmp_path / "page.html")
    with pytest.raises(ValueError, match="a trajectory needs at least one snapshot"):
        Trajectory(tmp_path, one.probe, one.classes, ())
    more = film(tmp_path / "more", particles=61).snapshots
    with pytest.raises(ValueError, match=r"step-00000020.safetensors has .* \(61, 30, 3\) .* the run .* \(60, 30, 3\)"):
        Trajectory(tmp_path, one.probe, one.classes, (*one.snapshots[:3], more[3]))


def test_numbers_that_are_none_never_reach_the_page(tmp_path: Path) -> None:
    one = film(tmp_path / "run")
    spoilt = one.snapshots[1].log_p.clone()
    spoilt[0, 0, 0] = -torch.inf
    Trajectory(tmp_path, one.probe, one.classes, (replace(one.snapshots[1], log_p=spoilt),))
    spoilt[0, 0, 0] = torch.nan
    with pytest.raises(
        ValueError, match=r"step-00000001\.safetensors has predictions or prior weights that are not numbers"
    ):
        Trajectory(tmp_path, one.probe, one.classes, (one.snapshots[0], replace(one.snapshots[1], log_p=spoilt)))
    short = replace(one.snapshots[0], log_prior=one.snapshots[0].log_prior[:7])
    with pytest.raises(
        ValueError, match=r"step-00000000\.safetensors has predictions \(60, 30, 3\) and prior weights \(7,\)"
    ):
        Trajectory(tmp_path, one.probe, one.classes, (short,))
    with pytest.raises(ValueError, match=r"the run \(particles, inputs, classes\) \(60, 30, 2\)"):
        Trajectory(tmp_path, replace(one.probe, labels=one.probe.labels % 2), ("a", "b"), one.snapshots)
    for labels in (one.probe.labels + 1, one.probe.labels - 1, one.probe.labels.float()):
        with pytest.raises(ValueError, match="the labels of the inputs must be whole numbers from 0 to 2"):
            Trajectory(tmp_path, replace(one.probe, labels=labels), one.classes, one.snapshots)


@pytest.mark.parametrize("method", [None, "some.function", {}, {"order": None}, {"target": {"order": 0}}])
def test_a_run_whose_order_is_not_known_is_of_order_one(tmp_path: Path, method: object) -> None:
    one = film(tmp_path / "run")
    recipe = records.content(one.path / "recipe.json")["recipe"]
    records.change(one.path / "recipe.json", recipe={**recipe, "method": method})
    assert write_embedding([one], tmp_path / "page.html").clouds[0].order == 1


def test_a_run_without_target_labels_shows_its_clusters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"data": "digits", "steps": "80", "evaluate_every": "80", "snapshots": "2", "particles": "20"}
    recipe, origin = named("label_free_transfer", settings, seed=0)
    train(recipe, tmp_path / "run", origin=origin)
    main_without_exit(["embed", str(tmp_path / "run")])
    data = page_data(tmp_path / "run" / "embedding.html")
    run = data["runs"][0]
    assert not data["named"]
    assert data["outputs"] == [f"output {number}" for number in range(1, 6)]
    assert list(data["landmarks"]) == [f"always output {number}" for number in range(1, 6)]
    assert set(run["clusters"]) == {0, 1, 2, 3, 4}
    assert run["agreement"] > 0.5  # chance is 0.2, matched a little more
    assert "20 particles, order 2" in capsys.readouterr().out


@pytest.mark.parametrize("snapshots", ["3", "0"])
def test_any_run_folder_can_be_embedded(tmp_path: Path, snapshots: str, capsys: pytest.CaptureFixture[str]) -> None:
    """K = 4 convolutional particles, with snapshots and from checkpoints alone."""
    settings = {
        "steps": "9",
        "unlabeled_batch": "8",
        "labeled_batch": "10",
        "evaluate_every": "9",
        "snapshots": snapshots,
    }
    recipe, origin = named("digits_ssl", settings, seed=3)
    train(recipe, tmp_path / "run", origin=origin)
    main_without_exit(["embed", str(tmp_path / "run")])
    data = page_data(tmp_path / "run" / "embedding.html")
    assert data["runs"][0]["steps"] == ([0, 1, 4, 9] if snapshots == "3" else [0, 9])
    assert data["runs"][0]["particles"] == 4
    assert "4 particles, order 2" in capsys.readouterr().out


def test_a_run_whose_own_data_are_not_there_is_told_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without snapshots, the data must be read to see the particles; data in memory are gone."""
    recipe = replace(
        named("digits_ssl", {"steps": "3"}, seed=0).recipe, task=named("digits_ssl", {}).recipe.read_task()
    )
    train(recipe, tmp_path / "run")
    with pytest.raises(SystemExit) as stop:
        main(["embed", str(tmp_path / "run")])
    assert stop.value.code == 2
    assert "the run uses a custom task: pass task=…, or --custom FILE.py" in capsys.readouterr().err


def test_an_order_with_too_many_labelings_is_measured_at_a_lower_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [affordable_order(n, 4, 200, 10) for n in (1, 2, 5, 9)] == [1, 2, 5, 5]
    assert affordable_order(2, 3000, 200, 2) == 2
    assert affordable_order(300, 1, 3, 2) == 3
    monkeypatch.setattr("refprior.report._scene.MOST_PROBABILITIES", 10_000)
    seen = scene([film(tmp_path / "run")], ["run"], [50])
    assert (seen.clouds[0].trained_order, seen.clouds[0].order) == (50, 2)
    assert "order 2 (trained with 50: too many labelings): I = " in summary(seen)


def main_without_exit(arguments: list[str]) -> None:
    try:
        main(arguments)
    except SystemExit as stop:
        assert not stop.code  # noqa: PT017


def browse(page: Path, *flags: str) -> str:
    if not chromium.CHROMIUM:
        pytest.skip("no Chromium on this machine: the page is not opened")
    command = [chromium.CHROMIUM, *FLAGS, f"--user-data-dir={page.parent / 'profile'}", *flags, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def green_pixels(picture: Path) -> int:
    with Image.open(picture) as drawn:
        red, green, blue = np.asarray(drawn.convert("RGB")).astype(int).transpose(2, 0, 1)
    return int(((green > red + 40) & (green > blue + 40)).sum())


def test_the_page_draws(tmp_path: Path) -> None:
    write_embedding([film(tmp_path / "run")], tmp_path / "page.html")
    browse(tmp_path / "page.html", f"--screenshot={tmp_path / 'shot.png'}")
    assert green_pixels(tmp_path / "shot.png") > 500  # the particles of the last snapshot


WATCH = """<script>
window.blocked = []; addEventListener("securitypolicyviolation", event => blocked.push(event.blockedURI));
</script>"""
DRIVE = """<script>
const report = {}, xs = () => Array.from($("cloud").data[0].x), choose = (id, value, kind) => {
  $(id).value = value; $(id).dispatchEvent(new Event(kind)); };
const later = () => new Promise(done => setTimeout(done, 1500));
(async () => {
  while (!document.body.dataset.ready) await later();
  const visible = () => $("cloud").data.slice(1, 4).map(trace => trace.visible);
  const ranges = () => ["xaxis", "yaxis"].map(axis => $("consensus")._fullLayout[axis].range);
  report.ranges = [ranges()]; report.end = xs(); report.atEnd = visible(); choose("slider", 1, "input"); await later();
  report.early = xs(); report.step = $("step").textContent; report.line = $("curves").layout.shapes[0].x0;
  report.atMiddle = visible(); choose("color", "entropy", "change"); await later();
  report.colors = Array.from($("cloud").data[0].marker.color);
  $("ghosts").click(); await later(); report.ghosts = visible();
  $("cloud").emit("plotly_hover", {points: [{curveNumber: 0, pointNumber: 7}]});
  report.who = $("who").textContent; report.pictures = document.querySelectorAll("#particle img").length;
  report.labels = [...document.querySelectorAll("#particle .true")].map(label => label.title);
  choose("slider", 0, "input"); await later(); report.later = $("who").textContent;
  report.ranges.push(ranges());
  report.requests = performance.getEntriesByType("resource").map(e => e.name).filter(n => !/^(data|blob):/.test(n));
  report.blocked = blocked;
  report.buttons = [...document.querySelectorAll(".modebar-btn")].map(button => button.dataset.title);
  const out = document.createElement("pre"); out.id = "report"; out.textContent = JSON.stringify(report);
  document.body.append(out);
})();
</script>"""


def test_the_slider_moves_points_and_nothing_leaves_the_page(tmp_path: Path) -> None:
    seen = write_embedding([film(tmp_path / "run")], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    driven = tmp_path / "driven.html"
    driven.write_text(
        text.replace("<title>", WATCH + "<title>", 1).replace("</body>\n</html>", DRIVE + "</body></html>")
    )
    found = re.search(r'<pre id="report">(.*?)</pre>', browse(driven, "--dump-dom"), re.DOTALL)
    assert found is not None
    report = json.loads(html.unescape(found[1]))
    cloud = seen.clouds[0]
    np.testing.assert_allclose(report["end"], cloud.coordinates[3, :, 0], atol=1e-6)
    np.testing.assert_allclose(report["early"], cloud.coordinates[1, :, 0], atol=1e-6)
    assert (report["step"], report["line"]) == ("step 1", 1)
    np.testing.assert_allclose(report["colors"], 100 * cloud.particle.entropy[1], atol=1e-4)
    assert report["atEnd"] == [True, True, False]  # the mouse finds particles, not ghosts that stand on them
    assert report["atMiddle"] == [True, False, True]
    assert report["ghosts"] == [False] * 3
    for text, number in (("who", 1), ("later", 0)):
        percent = f"{100 * cloud.particle.entropy[number, 7]:.0f}"
        assert report[text].startswith(f"Particle 7 at step {number}: accuracy")
        assert f" %, entropy {percent} % of log C, class balance " in report[text]
    assert report["pictures"] == 8
    assert report["labels"] == [seen.classes[label] for label in seen.labels]
    assert report["ranges"][0] == report["ranges"][1]
    for offset, (low, high) in enumerate(report["ranges"][0]):
        values = cloud.consensus.coordinates[..., offset]
        assert low < values.min() < values.max() < high
    assert (report["requests"], report["blocked"]) == ([], [])
    assert "Download plot as a PNG" in report["buttons"]
    assert not [title for title in report["buttons"] if re.search("share|cloud|edit", title, re.IGNORECASE)]
