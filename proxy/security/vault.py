"""Secrets at rest: sealed with a key that is derived from the site's secret.

A database dump alone opens nothing. When the site's secret is changed, sealed values cannot be read
any more and must be entered again; `manage.py doctor` names them.
"""

import base64

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings


class SecretUnreadable(Exception):
    """The value was sealed with another secret."""


def seal(secret: str) -> str:
    return _fernet().encrypt(secret.encode()).decode()


def unseal(sealed: str) -> str:
    """The secret itself; raises SecretUnreadable."""
    try:
        return _fernet().decrypt(sealed.encode()).decode()
    except InvalidToken as error:
        raise SecretUnreadable from error


def _fernet() -> Fernet:
    derived = HKDF(SHA256(), length=32, salt=None, info=b"athena upstream keys").derive(
        settings.SECRET_KEY.encode()
    )
    return Fernet(base64.urlsafe_b64encode(derived))
