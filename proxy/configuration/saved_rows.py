"""The last configuration on disk, for a process that starts while the database is unavailable.

The file holds the rows of a snapshot, encrypted with a key derived from ATHENA_SECRET_KEY, and only
the gateway's user can read it. Its modification time says when a process last compared it with the
database; `live` rejects one that is too old. Rows of another database, or of a version with other
tables, are not read. Keys in environment variables are not in it.
"""

import json
import logging
import os
import stat
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from time import time
from typing import Any

from django.conf import settings
from django.core import serializers

from proxy import models
from proxy.configuration.snapshot import Rows
from proxy.models.encrypted_headers import decrypted
from proxy.security.private_file import write_private_file
from proxy.security.vault import SecretUnreadable, seal, unseal

_MODELS = {
    "gateway": models.GatewaySettings,
    "upstreams": models.Upstream,
    "routes": models.ModelRoute,
    "overrides": models.FormatOverride,
    "keys": models.ClientKey,
    "definitions": models.FormatDefinition,
    "formats": models.FormatSettings,
}
logger = logging.getLogger("athena.configuration")


def _path() -> Path:
    return Path(settings.DATA_DIR) / "configuration"


def confirm(rows_version: int) -> bool:
    """Note that the database still has this version; False if the file has another."""
    try:
        with open(_path(), "rb") as file:
            if file.readline(30) != b"%d\n" % rows_version:
                return False
        os.utime(_path())
    except OSError:
        return False
    return True


def save(rows: Rows) -> None:
    """Write the rows. A full disk is only logged: the file is needed in an outage only."""
    listed = {name: getattr(rows, name) for name in _MODELS} | {"gateway": [rows.gateway]}
    content = {
        "made_by": _fingerprint(),
        "version": rows.version,
        "rows": {name: serializers.serialize("json", found) for name, found in listed.items()},
    }
    try:
        write_private_file(_path(), f"{rows.version}\n{seal(json.dumps(content))}")
    except OSError as error:
        logger.warning("the configuration cannot be kept on disk: %s", error.strerror)


def read() -> tuple[Rows, float] | None:
    """The rows, and the seconds since they were compared with the database; None without a file
    that this process may use."""
    try:
        descriptor = os.open(_path(), os.O_RDONLY | os.O_NOFOLLOW)
        with open(descriptor, encoding="ascii") as file:
            status = os.fstat(descriptor)
            is_private = status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077
            if not is_private or not stat.S_ISREG(status.st_mode):
                logger.warning("the configuration on disk is not used: others could change it")
                return None
            version, _, sealed = file.read().partition("\n")
        content = json.loads(unseal(sealed))
        if content["made_by"] != _fingerprint() or str(content["version"]) != version:
            return None
        return _rows(content), abs(time() - status.st_mtime)
    except (OSError, SecretUnreadable):
        return None
    except Exception:
        logger.exception("the configuration on disk cannot be read")
        return None


def _rows(content: dict[str, Any]) -> Rows:
    found: dict[str, Any] = {
        name: [entry.object for entry in serializers.deserialize("json", text)]
        for name, text in content["rows"].items()
    }
    upstreams = {}
    for row in found["upstreams"]:
        row.headers = decrypted(row.headers)
        upstreams[row.pk] = row
    for row in found["routes"]:
        row.upstream = upstreams[row.upstream_id]
    (found["gateway"],) = found["gateway"]
    return Rows(version=content["version"], **found)


def _fingerprint() -> str:
    """Identifies the database, and the columns that this version of the gateway reads."""
    database = settings.DATABASES["default"]
    columns = [[f.attname for f in model._meta.concrete_fields] for model in _MODELS.values()]
    parts = [*(str(database.get(name)) for name in ("NAME", "HOST", "PORT")), columns]
    return sha256(json.dumps(parts).encode()).hexdigest()


assert {*_MODELS, "version"} == {field.name for field in fields(Rows)}  # noqa: S101
