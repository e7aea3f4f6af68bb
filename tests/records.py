"""Sealed records, changed as someone would who knows how to seal them again."""

import json
from pathlib import Path
from typing import Any

from refprior import _files


def content(path: Path) -> dict[str, Any]:
    """What a sealed record holds, without format and seal."""
    return _files.read_record(path, json.loads(path.read_text())["format"])


def seal(path: Path, record: dict[str, Any]) -> None:
    """Write a record with the seal that it should have."""
    plain = {"format": 3, **{name: value for name, value in record.items() if name != _files.SEAL}}
    path.write_text(json.dumps({**plain, _files.SEAL: _files._checksum(plain)}))


def change(path: Path, **changes: Any) -> None:
    """Change a sealed record and seal it again."""
    seal(path, {**json.loads(path.read_text()), **changes})
