"""Saves failing inputs as files; `make test` runs those in tests/fixtures/fuzz."""

from hashlib import sha256
from pathlib import Path


def save(folder: Path, target: str, data: bytes) -> Path:
    directory = folder / target
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / sha256(data).hexdigest()[:12]
    path.write_bytes(data)
    return path
