"""Inputs that broke something, kept as files; as fixtures they are tried by every `make test`."""

from hashlib import sha256
from pathlib import Path


def save(folder: Path, target: str, data: bytes) -> Path:
    place = folder / target
    place.mkdir(parents=True, exist_ok=True)
    path = place / sha256(data).hexdigest()[:12]
    path.write_bytes(data)
    return path
