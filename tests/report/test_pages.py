"""Both pages in a real browser, on a phone, a tablet and a screen, white and dark: nothing leaves them, nothing
overflows, nothing is complained about, and names of landmarks do not cover each other."""

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from refprior._style import COLORS
from refprior.data import Examples
from refprior.recipes import named
from refprior.report import write_embedding, write_report
from refprior.training import train
from refprior.training._snapshot import Snapshot, Trajectory
from tests.report.folders import write_header, write_run
from tests.report.test_embed import FLAGS
from website import chromium

WIDTHS = (390, 800, 1200)
NOTES = ("Canvas2D: Multiple readback", "GL Driver Message (OpenGL, Performance")  # advice on speed, no complaints
NAMES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
LOOK = """<!doctype html><body>%s<script>
const later = time => new Promise(done => setTimeout(done, time));
onload = async () => {
  const found = [];
  for (const frame of document.querySelectorAll("iframe")) {
    const inside = frame.contentDocument, root = inside.documentElement, view = frame.contentWindow;
    while (%s && !inside.body.dataset.ready) await later(200);
    const boxes = [...inside.querySelectorAll(".annotation-text-g")].map(node => node.getBoundingClientRect());
    const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    found.push({
      over: root.scrollWidth - root.clientWidth, back: view.getComputedStyle(inside.body).backgroundColor,
      viewport: inside.querySelector("meta[name=viewport]").content, labels: boxes.length,
      meetings: boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b => meet(a, b))).length,
      broken: [...inside.images].filter(image => !image.naturalWidth).length,
      requests: view.performance.getEntriesByType("resource").map(e => e.name).filter(n => !/^(data|blob):/.test(n)),
    });
  }
  const out = document.createElement("pre");
  out.id = "o"; out.textContent = JSON.stringify(found); document.body.append(out);
};
</script>"""


def look(page: Path, *, dark: bool, drawn: bool) -> list[dict[str, Any]]:
    """What a browser says of a page in windows of three widths; drawn: the page says when it is ready."""
    if not chromium.CHROMIUM:
        pytest.skip("no Chromium on this machine: the page is not opened")
    frames = "".join(f'<iframe src="{page.name}" style="width:{w}px;height:900px;border:0"></iframe>' for w in WIDTHS)
    outer = page.with_name("outer.html")
    outer.write_text(LOOK % (frames, str(drawn).lower()))
    flags = [*FLAGS, "--allow-file-access-from-files", "--enable-logging=stderr", "--dump-dom"]
    flags += [f"--user-data-dir={page.parent / f'profile-{dark}'}", f"--blink-settings=preferredColorScheme={1 - dark}"]
    done = subprocess.run([chromium.CHROMIUM, *flags, outer.as_uri()], capture_output=True, text=True, timeout=180)
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not [line for line in said if not any(note in line for note in NOTES)]
    found = re.search(r'<pre id="o">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stdout[-2000:]
    seen: list[dict[str, Any]] = json.loads(html.unescape(found[1]))
    return seen


def check(seen: list[dict[str, Any]], dark: bool) -> None:
    red, green, blue = (int(COLORS["back"][dark][i : i + 2], 16) for i in (1, 3, 5))
    for width, found in zip(WIDTHS, seen, strict=True):
        assert found["over"] <= 0, width
        assert found["back"] == f"rgb({red}, {green}, {blue})"
        assert found["viewport"] == "width=device-width, initial-scale=1"
        assert (found["broken"], found["requests"], found["meetings"]) == (0, [], 0), (width, found)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Long names and many settings of runs made by hand, and a real run with examples."""
    folder = tmp_path_factory.mktemp("report")
    settings = {"method.threshold": "0.95", "unlabeled_batch": "100000", "optimizer.learning_rate": "0.0001"}
    for seed in (0, 1):
        write_run(
            folder / "runs" / str(seed), "cifar100_transfer_small", seed, 0.5, settings, confusion=((3, 1), (0, 4))
        )
    recipe, origin = named("digits_ssl", {"steps": "4", "evaluate_every": "2", "snapshots": "0"}, seed=0)
    train(recipe, folder / "runs" / "digits", origin=origin)
    write_report([folder / "runs"], folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def embedding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten classes whose landmarks lie close together."""
    folder = tmp_path_factory.mktemp("embedding")
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(60, 40, 10, generator=generator)
    images = torch.randint(0, 256, (40, 1, 8, 8), generator=generator, dtype=torch.uint8)
    log_prior = torch.zeros(60).log_softmax(0)
    shots = tuple(Snapshot(s, (c * logits).log_softmax(-1), log_prior) for s, c in ((0, 0.1), (2, 1.0), (20, 9.0)))
    write_header(folder / "run", {"steps": 20, "seed": 0, "method": {"order": 2}})
    seen = Trajectory(folder / "run", Examples(images, torch.arange(40) % 10), NAMES, shots)
    write_embedding([seen], folder / "page.html")
    return folder / "page.html"


@pytest.mark.parametrize("dark", [False, True])
def test_the_report_fits_every_window(report: Path, dark: bool) -> None:
    check(look(report, dark=dark, drawn=False), dark)


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_of_particles_fits_every_window(embedding: Path, dark: bool) -> None:
    seen = look(embedding, dark=dark, drawn=True)
    check(seen, dark)
    assert [found["labels"] for found in seen] == [11] * 3  # the truth, and one for each class


def test_the_report_has_examples_with_a_key(report: Path) -> None:
    text = report.read_text()
    assert "<h2>Examples</h2>" in text
    assert text.count("class='sheet'") == 1  # of the run that can be loaded


def test_the_report_prints_everything(report: Path) -> None:
    """On paper, tables are not cut and folded ones are there: more pages than on a screen, and each has its text."""
    if not chromium.CHROMIUM:
        pytest.skip("no Chromium on this machine: the page is not printed")
    paper = report.with_name("report.pdf")
    flags = [f"--user-data-dir={report.parent / 'profile-print'}", f"--print-to-pdf={paper}", "--no-pdf-header-footer"]
    subprocess.run([chromium.CHROMIUM, *FLAGS, *flags, report.as_uri()], capture_output=True, timeout=120, check=True)
    assert len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes())) >= 3
