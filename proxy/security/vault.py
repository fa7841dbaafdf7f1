"""Encryption of secrets at rest, with a key that is derived from ATHENA_SECRET_KEY.

A database dump alone reveals nothing. After a change of ATHENA_SECRET_KEY, sealed values cannot be
read and must be entered again; `manage.py doctor` lists them.
"""

import base64

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings


class SecretUnreadable(Exception):
    """The value was sealed with another ATHENA_SECRET_KEY."""


def seal(secret: str) -> str:
    return _fernet().encrypt(secret.encode()).decode()


def unseal(sealed: str) -> str:
    """Return the secret; raises SecretUnreadable."""
    try:
        return _fernet().decrypt(sealed.encode()).decode()
    except InvalidToken as error:
        raise SecretUnreadable from error


def _fernet() -> Fernet:
    derived = HKDF(SHA256(), length=32, salt=None, info=b"athena upstream keys").derive(
        settings.SECRET_KEY.encode()
    )
    return Fernet(base64.urlsafe_b64encode(derived))
