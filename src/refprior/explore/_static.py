"""The page without a server: the same files with precomputed answers."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import msgspec

from refprior._files import Json, write_folder_atomically
from refprior._progress import Progress, no_progress
from refprior._words import in_short
from refprior.explore._play import Query, answer, check_size, models

_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
PAGE = {file.name: _KINDS[Path(file.name).suffix] for file in files("refprior.explore").joinpath("page").iterdir()}
ANSWERS = "answers"
LIVE, STATIC = b'name="refprior" content="live"', b'name="refprior" content="static"'
Marks = Mapping[str, Mapping[str, Sequence[float]]]
MARKS: Marks = {  # settings with precomputed answers, in every combination
    "coin": {"n": (*range(1, 13), 15, 20, 25, 30, 40, 50, 75, 100, 150, 200), "m": (0, 1, 5, 20), "beta": (0.5, 1)},
    "gaussian": {
        "amplitude": (*(round(0.2 * i, 1) for i in range(1, 26)), 6, 8, 10),
        "n": (1, 4, 16),
        "m": (0,),
        "beta": (1,),
    },
    "poisson": {
        "amplitude": (0.5, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 75, 100),
        "dark": (0, 2),
        "n": (1,),
        "m": (0,),
        "beta": (1,),
    },
    "two-coins": {"n": (*range(1, 13), 15, 20)},
    "decay": {"sigma": (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1), "time": (2, 4)},
}


def page_bytes(name: str) -> bytes:
    """Read a file of the page."""
    return files("refprior.explore").joinpath("page", name).read_bytes()


def write_static(
    out: Path | str, folder: Path | str | None = None, *, marks: Marks = MARKS, progress: Progress = no_progress
) -> None:
    """Write the explorer as static files that any web server can serve.

    The page sends no requests to other machines. A folder that this function wrote before is replaced; any other folder
    is left alone.

    Parameters
    ----------
    out : path
        Folder to write.
    folder : path, optional
        Folder of runs to show, in their current state.
    marks : mapping, optional
        Values of the settings of each model for which answers are computed, in every combination.
    progress : callable, optional
        Called with the current work, the completed part and the total.

    Raises
    ------
    ValueError
        If ``out`` exists and was not written by this function.

    Examples
    --------
    >>> from pathlib import Path
    >>> from refprior.explore import write_static
    >>> write_static("site/explore", marks={"coin": {"n": (1, 2), "m": (0,), "beta": (1,)}})
    >>> sorted(path.name for path in Path("site/explore/answers").iterdir())
    ['about.json', 'play-coin.json', 'runs.json']
    """
    out = Path(out)
    if out.exists() and not (out / ANSWERS / "about.json").exists():
        raise ValueError(f"{out} exists and was not written by refprior explore: give a new folder")

    def write(side: Path) -> None:
        for name in PAGE:
            (side / name).write_bytes(page_bytes(name).replace(LIVE, STATIC))
        (side / ANSWERS).mkdir()
        for name, content in itertools.chain(_answers(marks, progress), _runs(folder)):
            (side / ANSWERS / f"{name}.json").write_bytes(content)

    write_folder_atomically(out, write)


def _answers(marks: Marks, progress: Progress) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of the files with answers."""
    yield "about", msgspec.json.encode({"live": False, "models": _marked_models(marks), "code": False})
    asked = {name: questions(name, marks[name]) for name in marks}
    done, total = 0, sum(map(len, asked.values()))
    for name, queries in asked.items():
        found = {}
        for query in queries:
            progress("computing answers", done, total)
            found[query.text] = msgspec.Raw(answer(query.text))
            done += 1
        yield f"play-{name}", msgspec.json.encode(found)


def _runs(folder: Path | str | None) -> Iterator[tuple[str, bytes]]:
    """Yield the runs of a folder; an unreadable part is replaced by its error."""
    if folder is None:
        yield "runs", msgspec.json.encode({"version": "static", "runs": []})
        return
    from refprior.explore import _watch

    listed = _watch.Runs(Path(folder))
    found = listed.listed()["runs"]
    yield "runs", msgspec.json.encode({"version": "static", "runs": found})
    for run in (run for run in found if run["problem"] is None):
        for name, read in {"run": _watch.details, "embedding": _watch.embedding, "examples": _watch.examples}.items():
            try:
                content = read(listed.path(run["id"]))
            except (ValueError, OSError) as error:
                content = {"error": in_short(error)}
            yield f"{name}-{run['id']}", msgspec.json.encode(content)


def questions(model: str, marks: Mapping[str, Sequence[float]]) -> list[Query]:
    """Return all queries about a model: every combination of its marks, and the Jeffreys prior of one stage."""
    asked: dict[str, Query] = {}
    for values in itertools.product(*marks.values()):
        given = {"model": model, **{name: f"{value:g}" for name, value in zip(marks, values, strict=True)}}
        for more in ({}, {"jeffreys": "1"}):
            query = Query.parse({**given, **more})
            if more and (model == "decay" or query.values()["m"]):
                continue
            try:
                check_size(query)
            except ValueError:  # too large for the page
                continue
            asked[query.text] = query
    return list(asked.values())


def _marked_models(marks: Marks) -> list[Json]:
    """Return the models with answers, with the marks of their sliders."""
    shown = []
    for model in models():
        if known := marks.get(model["name"]):
            sliders = []
            for slider in model["sliders"]:
                allowed = list(known[slider["name"]])
                distances = [abs(mark - slider["value"]) for mark in allowed]
                nearest = allowed[distances.index(min(distances))]
                sliders.append({**slider, "marks": allowed, "value": nearest})
            shown.append({**model, "sliders": sliders})
    return shown
