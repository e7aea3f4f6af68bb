"""Configuration of the site: `make docs` builds it into build/site."""

import logging
import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import matplotlib.pyplot as plt  # noqa: E402
import torch  # noqa: E402
from sphinx_gallery.sorting import FunctionSortKey  # noqa: E402
from website.extension import described_figures, explorer, forget_outputs  # noqa: E402

from refprior import __version__  # noqa: E402
from refprior._style import RC  # noqa: E402

torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"

project = "refprior"
author = "The refprior developers"
copyright = "The refprior developers, MIT license"  # noqa: A001
version = release = __version__

extensions = [
    "cyclopts.ext.sphinx",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosectionlabel",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "website.extension",
]
exclude_patterns = ["learn", "gallery", "sg_execution_times.rst"]
templates_path = ["_templates"]
default_role = "py:obj"
smartquotes = False  # --set stays --set
suppress_warnings = ["autosectionlabel.*", "config.cache"]  # equal headings within a page; functions in this file
autosectionlabel_prefix_document = True

myst_enable_extensions = ["colon_fence", "dollarmath", "html_image"]
myst_heading_anchors = 4

autosummary_imported_members = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # numpydoc lists the types
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# The build needs no network. INTERSPHINX=1 links to the documentation of these projects.
intersphinx_mapping = (
    {
        "numpy": ("https://numpy.org/doc/stable/", None),
        "scipy": ("https://docs.scipy.org/doc/scipy/", None),
        "sklearn": ("https://scikit-learn.org/stable/", None),
        "torch": ("https://docs.pytorch.org/docs/stable/", None),
    }
    if os.environ.get("INTERSPHINX")
    else {}
)

ORDER = (
    *("coin", "atoms", "jeffreys", "stages", "networks", "labels", "transfer"),
    *("rules", "digits", "embeddings", "table", "texts", "images", "transfer_digits", "clusters", "asking"),
    *("mistakes", "abstain", "sloppy", "identify", "design", "loop", "method"),
)


def place(filename: str) -> int:
    """Return the place of a script in its gallery; new scripts are last."""
    stem = Path(filename).stem
    return ORDER.index(stem) if stem in ORDER else len(ORDER)


def reset(*_: Any) -> None:
    """Start each script without handlers of log messages, and make its warnings errors."""
    logging.getLogger().handlers.clear()
    logging.getLogger("refprior").setLevel(logging.NOTSET)
    warnings.simplefilter("error")
    for shown_to_nobody in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", shown_to_nobody)
    warnings.filterwarnings("ignore", message=".*non-interactive")
    plt.rcParams.update({**RC, "axes.grid": False})  # images have none


SCRIPTS = ROOT / "build" / "scripts"  # copies, because scripts write files where they are
shutil.rmtree(SCRIPTS, ignore_errors=True)
for section in ("learn", "gallery"):
    shutil.copytree(ROOT / "docs" / section, SCRIPTS / section)

forget_outputs([ROOT / "docs" / "auto_learn", ROOT / "docs" / "auto_gallery"], ROOT / "build" / "gallery.key")
sphinx_gallery_conf = {
    "examples_dirs": [str(SCRIPTS / "learn"), str(SCRIPTS / "gallery")],
    "gallery_dirs": ["auto_learn", "auto_gallery"],
    "filename_pattern": "",
    "within_subsection_order": FunctionSortKey(place, "order of conf.py"),
    "image_scrapers": (described_figures,),
    "image_srcset": ["2x"],
    "reset_modules": ("matplotlib", reset),
    "abort_on_example_error": True,
    "doc_module": ("refprior",),
    "reference_url": {"refprior": None},
    "backreferences_dir": None,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "refprior"
html_logo = html_favicon = "assets/logo.svg"
html_static_path = ["assets"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_extra_path = [str(explorer(ROOT / "build" / "explorer"))]
html_copy_source = html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "refprior"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
