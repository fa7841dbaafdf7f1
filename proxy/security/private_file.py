"""Writes a file that only the gateway's user can read."""

import os
import secrets
from pathlib import Path


def write_private_file(path: Path, text: str) -> None:
    """Write a file that only its owner can read; on failure no partial file is left."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
