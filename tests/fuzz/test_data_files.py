"""Every kind of data file, damaged in thousands of ways: it is read, or refused in one line that names it."""

import gzip
import io
import json
import os
import random
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from refprior.data._read import image_folder, read_npz
from refprior.data.files._pictures import read_images
from refprior.data.sources._cifar import PIXELS, _Files, _from_archive, _from_folder, _names, read_binary
from refprior.data.sources._obtain import NOTES, _noted, read_cifar_package
from refprior.data.sources._sets import _read_five, read_idx
from tests.data.written import idx
from tests.fuzz._mutations import bounded_memory, check, fuzz, mutate

FEW, MANY = 2_000, 100_000  # mutations of each kind of file
RANDOM = np.random.RandomState(0)
PICTURE = Image.fromarray(RANDOM.randint(0, 256, (6, 5, 3)).astype(np.uint8))
LABELS = [3, 9, 0]
RECORDS = RANDOM.randint(0, 256, (3, PIXELS)).astype(np.uint8)

Damage = Callable[[bytes, random.Random], bytes]


class Kind(NamedTuple):
    """A kind of file: a whole one, how it is read, and how to damage it so that its checksums are still right."""

    content: bytes
    read: Callable[[Path], object]
    deep: Damage = mutate
    name: str = "file"


def damage(kind: Kind, content: bytes, rng: random.Random) -> bytes:
    return (mutate if rng.random() < 0.5 else kind.deep)(content, rng)


def inside_gzip(content: bytes, rng: random.Random) -> bytes:
    return gzip.compress(mutate(gzip.decompress(content), rng), 1)


def inside_zip(content: bytes, rng: random.Random) -> bytes:
    """Damage one of the arrays, most often its header, and pack them all again."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(list(files))
    cut = 128 if rng.random() < 0.8 else 0
    files[name] = mutate(files[name][: cut or None], rng) + (files[name][cut:] if cut else b"")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for other, member in files.items():
            archive.writestr(other, member)
    return packed.getvalue()


def inside_tar(content: bytes, rng: random.Random) -> bytes:
    """Damage the header of a member, and make its checksum right."""
    place = 512 * rng.randrange(max(1, len(content) // 512))
    header = bytearray(mutate(content[place : place + 512], rng)[:512].ljust(512, b"\0"))
    if rng.random() < 0.5:
        header[156] = rng.choice(b"0123456789xgLKSV\0")
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + sum(header[156:]) + 256)
    return content[:place] + bytes(header) + content[place + 512 :]


def inside_png(content: bytes, rng: random.Random) -> bytes:
    """Damage one chunk, and make its checksum right; that of the pixels before it is packed."""
    chunks, place = [], 8
    while place < len(content):
        length = int.from_bytes(content[place : place + 4], "big")
        chunks.append(content[place + 4 : place + 8 + length])
        place += 12 + length
    which = rng.randrange(len(chunks))
    name, body = chunks[which][:4], chunks[which][4:]
    chunks[which] = name + (zlib.compress(mutate(zlib.decompress(body), rng)) if name == b"IDAT" else mutate(body, rng))
    packed = (struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks)
    return content[:8] + b"".join(packed)


def npz(**arrays: np.ndarray) -> bytes:
    packed = io.BytesIO()
    np.savez(packed, allow_pickle=False, **arrays)
    return packed.getvalue()


def tar(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"inside/{name.replace('__', '.')}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()[: 512 * (sum(1 + -(-len(c) // 512) for c in files.values()) + 2)]


def picture(form: str) -> bytes:
    packed = io.BytesIO()
    PICTURE.save(packed, form)
    return packed.getvalue()


def rows(count: int) -> bytes:
    packed = io.BytesIO()
    Image.new("RGB", (1024, count), (1, 2, 3)).save(packed, "PNG")
    return packed.getvalue()


def read_archive(path: Path) -> object:
    return read_binary(_from_archive(path)("test.bin"), str(path), 3, (10,))


def read_names(path: Path) -> object:
    return _names(_Files(path.parent, partial(_from_folder, path.parent)))


def five() -> bytes:
    return npz(
        images=np.zeros((4, 2, 2), np.uint8),
        fine=np.array([0, 2, 0, 2]),
        coarse=np.array([0, 1, 0, 1]),
        split=np.array([0, 0, 1, 1]),
        fine_names=np.array(["a", "b", "c"]),
        coarse_names=np.array(["x", "y"]),
    )


OWN: dict[str, np.ndarray] = {
    "images": np.zeros((8, 2, 2), np.uint8),
    "labels": np.arange(8) % 2,
    "split": np.arange(8) // 4,
}
BATCH = np.concatenate([np.array(LABELS)[:, None], RECORDS], axis=1).astype(np.uint8).tobytes()
META = {f"{kind}_label_names": [f"{kind}{i}" for i in range(n)] for kind, n in (("fine", 100), ("coarse", 20))}
PACKAGE = {f"data_batch_{i}__png": rows(1) for i in range(1, 6)} | {
    "test_batch__png": rows(1),
    "train_lables__json": json.dumps([1, 2, 3, 4, 5]).encode(),
    "test_lables__json": b"[6]",
}
KINDS = {
    "idx": Kind(idx(np.zeros((3, 4, 5))), read_idx),
    "idx.gz": Kind(gzip.compress(idx(np.zeros((3, 4, 5)))), read_idx, inside_gzip),
    "npz": Kind(npz(**OWN, classes=np.array(["a", "b"])), read_npz, inside_zip),
    "npz, floats": Kind(npz(**OWN | {"images": np.ones((8, 2, 2))}, classes=np.arange(2)), read_npz, inside_zip),
    "npz, superclasses": Kind(five(), _read_five, inside_zip),
    "records": Kind(
        BATCH,
        lambda path: read_binary(path.read_bytes(), str(path), 3, (10,)),
    ),
    "names": Kind("\n".join(META["fine_label_names"]).encode(), read_names, name="fine_label_names.txt"),
    "tar": Kind(tar(other=b"x", test__bin=BATCH), read_archive, inside_tar),
    "tar.gz": Kind(gzip.compress(tar(test__bin=BATCH)), read_archive, inside_gzip),
    "npm package": Kind(tar(**PACKAGE), lambda path: list(read_cifar_package(path, 1)), inside_tar),
    "checksums": Kind(
        f"{'0' * 32}  train.bin\n{'1' * 32}  test.bin\n".encode(), lambda p: _noted(p.parent), name=NOTES
    ),
    "PNG": Kind(picture("PNG"), lambda path: read_images([path]), inside_png),
    "JPEG": Kind(picture("JPEG"), lambda path: read_images([path])),
    "BMP": Kind(picture("BMP"), lambda path: read_images([path])),
    "GIF": Kind(picture("GIF"), lambda path: read_images([path])),
    "WEBP": Kind(picture("WEBP"), lambda path: read_images([path])),
    "TIFF": Kind(picture("TIFF"), lambda path: read_images([path])),
    "PPM": Kind(picture("PPM"), lambda path: read_images([path])),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_damaged_file_is_read_or_refused_by_its_name(name: str, tmp_path: Path) -> None:
    run(name, tmp_path, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_hundred_thousand_damaged_files(name: str, tmp_path: Path) -> None:
    run(name, tmp_path, MANY)


def run(name: str, folder: Path, count: int) -> None:
    kind = KINDS[name]
    if kind.name == "fine_label_names.txt":
        (folder / "coarse_label_names.txt").write_text("\n".join(META["coarse_label_names"]))
    path = folder / kind.name
    path.write_bytes(kind.content)
    assert check(lambda: kind.read(path), path)
    read = fuzz(kind.content, path, kind.read, count, damage=partial(damage, kind))
    print(f"{name}: {read} of {count} were read")


def grow(root: Path, rng: random.Random) -> None:
    """A folder of photographs in disorder: links in circles, folders in folders, odd names, no images."""
    places = [root, *(root / name for name in rng.sample(("ape", "bee", "train", "test", "unlabeled", "\n"), 3))]
    for place in places[1:]:
        place.mkdir(exist_ok=True)
        (place / "whole.png").write_bytes(picture("PNG"))
    for number in range(rng.randrange(4)):
        place, kind = rng.choice(places) / f"{number}.png", rng.randrange(5)
        if kind == 0:
            place.symlink_to(
                rng.choice([place, root, *places, Path("gone"), root / "ape" / "whole.png", Path("/dev/zero")])
            )
        elif kind == 1:
            place.mkdir()
            (place / "inside.png").symlink_to(rng.choice(places))
        elif kind == 2:
            os.mkfifo(place)
        else:
            place.write_bytes(mutate(picture("PNG"), rng))


@pytest.mark.parametrize("count", [FEW // 10, pytest.param(MANY // 10, marks=pytest.mark.slow)])
def test_a_folder_in_disorder_is_read_or_refused_by_its_name(count: int, tmp_path: Path) -> None:
    with bounded_memory():
        for number in range(count):
            root = tmp_path / "photos"
            root.mkdir()
            grow(root, random.Random(number))
            try:
                check(partial(image_folder, root), root)
            except AssertionError as error:
                raise AssertionError(f"folder {number}: {error}") from error
            shutil.rmtree(root)
