"""The content of a folder of images by name only: classes, parts, and files that are skipped. No image is opened."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from refprior._words import in_short
from refprior.data.files._error import DataError

UNLABELED = ("unlabeled", "unlabelled")  # in any case
_PARTS = {"train": "train", "test": "test", "val": "validation", "valid": "validation", "validation": "validation"}
_ORDER = ("train", "test", "validation", "unlabeled")
_LITTER = ("__MACOSX",)  # folders that programs leave behind
_DEEPEST = 20  # folders in folders of a class
_SUFFIXES = (
    ".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".bmp", ".dib", ".gif", ".webp", ".tif", ".tiff",
    ".ppm", ".pgm", ".pbm", ".pnm",
)  # fmt: skip
_BEGINNINGS = (b"\x89PNG", b"\xff\xd8\xff", b"BM", b"GIF8", b"RIFF", b"II*\0", b"MM\0*")  # of pictures without a suffix


@dataclass(frozen=True)
class FoundFolder:
    """One class of one part, or a folder of unlabeled images.

    Attributes
    ----------
    part : {"train", "test", "validation", "unlabeled"}
        The part it belongs to.
    name : str
        Name of the folder.
    files : tuple of Path
        Its images, in the order in which they are read.
    skipped : mapping of str to int
        How many files are skipped, by reason.
    """

    part: str
    name: str
    files: tuple[Path, ...]
    skipped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Survey:
    """The content of a folder of images. Printed, it is a table.

    Attributes
    ----------
    root : Path
        The folder.
    folders : tuple of FoundFolder
        Its classes, part by part, and its folders of unlabeled images.
    divided : bool
        Whether the classes are inside ``train/``.
    skipped : mapping of str to int
        How many files outside the folders of classes are skipped, by reason.
    """

    root: Path
    folders: tuple[FoundFolder, ...]
    divided: bool = False
    skipped: Mapping[str, int] = field(default_factory=dict)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""
        return tuple(folder.name for folder in self.folders if folder.part == "train")

    def part(self, name: str) -> tuple[FoundFolder, ...]:
        """Return the folders of one part."""
        return tuple(folder for folder in self.folders if folder.part == name)

    @property
    def summary(self) -> str:
        """One line with the counts, for a log."""
        parts = {part: sum(len(folder.files) for folder in self.part(part)) for part in _ORDER}
        counts = ", ".join(f"{count:,} {part}" for part, count in parts.items() if count)
        skipped = sum(sum(folder.skipped.values()) for folder in self.folders) + sum(self.skipped.values())
        return f"{len(self.classes)} classes, {counts} images" + (f", {skipped:,} files skipped" if skipped else "")

    @property
    def rows(self) -> list[list[str]]:
        """The table as words: a head, and for each folder its part, class, images, and skipped files by reason."""
        rows = [[f.part, f.name, f"{len(f.files):,}", in_words(f.skipped)] for f in self.folders]
        rows += [["", "", "", in_words(self.skipped)]] if self.skipped else []
        return [["part", "class", "images", "skipped"], *rows]

    def __str__(self) -> str:
        widths = [max(map(len, column)) for column in zip(*self.rows, strict=True)]
        return "\n".join(
            "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in self.rows
        )


def survey(root: str | Path) -> Survey:
    """List the images of each class in a folder, and the files that are skipped, without opening an image.

    Parameters
    ----------
    root : str or Path
        A folder as `read` takes it.

    Returns
    -------
    Survey
        Classes and their images; printed, it is a table.

    Raises
    ------
    DataError
        If there are no classes, a class is empty, or parts have different classes.

    Examples
    --------
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> import refprior as rp
    >>> for name in ("cat", "dog", "Unlabeled"):
    ...     Path("photos", name, "2026").mkdir(parents=True)
    ...     Image.new("RGB", (8, 8)).save(f"photos/{name}/2026/0.png")
    >>> Path("photos/cat/notes.txt").touch()
    >>> print(rp.data.survey("photos"))
    part        class      images  skipped
    train       cat        1       1 not an image that is read (.txt)
    train       dog        1
    unlabeled  Unlabeled  1
    """
    root = Path(root)
    if not root.is_dir():
        raise DataError(f"{root} is not a folder")
    places = _places(root)
    pools = [folder for place in {root, places["train"]} for folder in _subfolders(place) if _is_pool(folder)]
    inside = {part: [f for f in _subfolders(place) if not _is_pool(f)] for part, place in places.items()}
    for part, folders in inside.items():
        if not folders:
            raise DataError(f"{places[part]} has no folders of classes")
    walk = _Walk(root, [*(folder for folders in inside.values() for folder in folders), *pools])
    found = []
    for part, folder in [*((p, f) for p, fs in inside.items() for f in fs), *(("unlabeled", f) for f in sorted(pools))]:
        others: Counter[str] = Counter()
        files = tuple(walk.pictures(folder, others))
        if not files and part != "unlabeled":
            raise DataError(f"class folder {folder} is empty" + (f" ({in_words(others)})" if others else ""))
        found.append(FoundFolder(part, folder.name, files, dict(others)))
    beside = sum(path.is_file() for place in {root, *places.values()} for path in _visible(place))
    skipped = {"beside the folders of classes": beside} if beside else {}
    result = Survey(root, tuple(found), places["train"] != root, skipped)
    for part in ("test", "validation"):
        names = tuple(folder.name for folder in result.part(part))
        if names and names != result.classes:
            raise DataError(
                f"{root}: the classes of the training part are {in_short(result.classes)}, "
                f"those of the {part} part {in_short(names)}"
            )
    return result


def _places(root: Path) -> dict[str, Path]:
    """Return where the classes of each part are: in train/, test/ and val/ if these hold folders, else in the root."""
    parts: dict[str, Path] = {}
    for folder in _subfolders(root):
        part = _PARTS.get(folder.name.casefold())
        if part is not None and folder.is_dir() and _subfolders(folder):
            if part in parts:
                raise DataError(f"{root} has {parts[part].name}/ and {folder.name}/ as {part} part: keep one of them")
            parts[part] = folder
    others = [f for f in _subfolders(root) if f not in parts.values() and not _is_pool(f)]
    if "train" not in parts or (len(parts) == 1 and others):  # a class may be called so
        return {"train": root}
    if others:
        raise DataError(f"{root} has {', '.join(f'{p.name}/' for p in parts.values())} and {others[0].name}/: move it")
    return {part: parts[part] for part in _ORDER if part in parts}


class _Walk:
    """Walks through the folders of a root, following links, and enters no folder twice."""

    def __init__(self, root: Path, folders: list[Path]) -> None:
        self._root = root.resolve()
        self._seen: dict[Path, Path] = {self._root: root}
        for folder in folders:
            self._enter(folder)

    def pictures(self, folder: Path, skipped: Counter[str], depth: int = 0) -> Iterator[Path]:
        """Yield the images in a folder and below it, by name; other files are counted in `skipped`."""
        if depth > _DEEPEST:
            raise DataError(f"{folder} is more than {_DEEPEST} folders deep: move its images up")
        skipped.update("hidden" for path in folder.iterdir() if path.name.startswith("."))
        for path in _visible(folder):
            if _is_broken(path):
                raise DataError(f"{path} is a broken link: remove it")
            if path.is_dir():
                self._enter(path)
                yield from self.pictures(path, skipped, depth + 1)
            elif (why := _why_skipped(path)) is not None:
                skipped[why] += 1
            else:
                yield path

    def _enter(self, folder: Path) -> None:
        """Reject broken links, and links by which images would be read twice or in circles."""
        if _is_broken(folder):
            raise DataError(f"{folder} is a broken link: remove it")
        real = folder.resolve()
        other = self._seen.setdefault(real, folder)
        if other is not folder or self._root.is_relative_to(real):
            raise DataError(f"{folder} is a link to {other}: remove it")


def pictures_in(folder: Path) -> tuple[list[Path], Counter[str]]:
    """Return the images in a folder and below it, by name, and the number of other files by reason."""
    others: Counter[str] = Counter()
    return list(_Walk(folder, []).pictures(folder, others)), others


def _why_skipped(file: Path) -> str | None:
    """Return why a file is not an image; None for one that is by its name or first bytes, and is read or rejected."""
    if not file.is_file():
        return "not a file"
    suffix = file.suffix.lower()
    if suffix in _SUFFIXES:
        return None
    with file.open("rb") as stream:
        if stream.read(8).startswith(_BEGINNINGS):
            return None
    return f"not an image that is read ({suffix})" if suffix else "not an image"


def _is_pool(folder: Path) -> bool:
    return folder.name.casefold() in UNLABELED


def _is_broken(path: Path) -> bool:
    return path.is_symlink() and not path.exists()


def _subfolders(folder: Path) -> list[Path]:
    return [path for path in _visible(folder) if path.is_dir() or _is_broken(path)]


def _visible(folder: Path) -> list[Path]:
    """List a folder by name, without hidden files and what programs leave behind."""
    found = sorted(path for path in folder.iterdir() if not path.name.startswith(".") and path.name not in _LITTER)
    for path in found:
        if not path.name.isprintable():
            raise DataError(f"{folder} holds {path.name!r}: rename it, with printable characters")
    return found


def in_words(skipped: Mapping[str, int]) -> str:
    """Write counts by reason: 3 hidden, 1 not an image."""
    return ", ".join(f"{count:,} {why}" for why, count in sorted(skipped.items()))
