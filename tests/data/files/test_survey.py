"""What is found in a folder of images: classes, nested folders, the pool in both spellings, and what is skipped."""

from pathlib import Path

import pytest
from PIL import Image

from refprior.data import FewLabels, survey
from refprior.data._read import image_folder
from refprior.data.files._error import DataError


def save(path: Path, level: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (4, 4), level).save(path, "PNG")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number, name in enumerate(["cat/1.png", "cat/2026/may/2.png", "cat/3.png", "dog/1.png", "dog/2.png"]):
        save(tmp_path / name, number)
    return tmp_path


@pytest.mark.parametrize("name", ["unlabeled", "unlabelled", "Unlabelled", "UNLABELED"])
def test_the_pool_is_known_in_both_spellings_and_any_case(root: Path, name: str) -> None:
    save(root / name / "deep" / "1.png", 77)
    data = image_folder(root, test=0)
    assert data.classes == ("cat", "dog")
    assert data.unlabeled is not None
    assert data.unlabeled.unique().tolist() == [77]


def test_a_pool_inside_the_training_part_is_read_too(tmp_path: Path) -> None:
    for place in ("train/a", "train/b", "test/a", "test/b", "train/unlabeled", "unlabeled"):
        save(tmp_path / place / "1.png")
    data = image_folder(tmp_path)
    assert data.unlabeled is not None
    assert (data.classes, len(data.unlabeled)) == (("a", "b"), 2)


def test_nested_folders_belong_to_their_class_in_the_order_of_names(root: Path) -> None:
    data = image_folder(root, test=0)
    assert data.train.inputs[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4]
    assert data.train.labels.tolist() == [0, 0, 0, 1, 1]


def test_images_are_known_by_their_files(root: Path) -> None:
    save(root / "unlabeled" / "9.png", 9)
    data = image_folder(root, test=2)
    assert len(data.names) == 4
    assert data.names[-1] == "unlabeled/9.png"
    levels = {"cat/1.png": 0, "cat/2026/may/2.png": 1, "cat/3.png": 2, "dog/1.png": 3, "dog/2.png": 4}
    assert [levels[name] for name in data.names[:3]] == data.train.inputs[:, 0, 0, 0].tolist()
    assert FewLabels(data, labels=2)().names[-1] == "unlabeled/9.png"


def test_what_is_no_image_is_skipped_and_counted(root: Path) -> None:
    for name in ("cat/notes.txt", "cat/thumbs.db", "cat/.DS_Store", "cat/2026/.hidden", "dog/README", "list.csv"):
        (root / name).write_text("nothing")
    save(root / "dog" / "picture without a suffix", 9)
    (root / "__MACOSX" / "cat").mkdir(parents=True)
    found = survey(root)
    cat, dog = found.folders
    assert cat.skipped == {"hidden": 2, "not an image that is read (.txt)": 1, "not an image that is read (.db)": 1}
    assert dog.skipped == {"not an image": 1}
    assert [file.name for file in dog.files] == ["1.png", "2.png", "picture without a suffix"]
    assert found.skipped == {"beside the folders of classes": 1}
    assert found.summary == "2 classes, 6 train images, 6 files skipped"
    assert len(image_folder(root, test=0).train) == 6


def test_the_table_has_a_row_for_each_folder(root: Path) -> None:
    (root / "dog" / "a.heic").touch()
    assert str(survey(root)).splitlines() == [
        "part   class  images  skipped",
        "train  cat    3",
        "train  dog    2       1 not an image that is read (.heic)",
    ]


def test_a_class_of_other_files_only_is_named_with_what_was_skipped(root: Path) -> None:
    (root / "fox").mkdir()
    (root / "fox" / "a.heic").touch()
    with pytest.raises(DataError, match=r"class folder .*fox is empty \(1 not an image that is read \(.heic\)\)"):
        survey(root)


def test_a_damaged_picture_is_found_and_then_rejected_by_its_name(root: Path) -> None:
    (root / "cat" / "bad.jpg").write_text("this is text")
    assert len(survey(root).folders[0].files) == 4
    with pytest.raises(DataError, match=r"cat/bad.jpg: not a readable image"):
        image_folder(root)


def test_links_in_circles_far_below_are_named(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    save(elsewhere / "more" / "9.png", 9)
    (root / "dog" / "linked").symlink_to(elsewhere)
    assert len(survey(root).folders[1].files) == 3
    (elsewhere / "more" / "round").symlink_to(elsewhere)
    with pytest.raises(DataError, match=r"round is a link to .*linked: remove it"):
        survey(root)


def test_very_deep_folders_are_rejected(root: Path) -> None:
    save(root / "cat" / Path(*["deep"] * 25) / "1.png")
    with pytest.raises(DataError, match="is more than 20 folders deep"):
        survey(root)
