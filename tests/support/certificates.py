"""Certificates of a temporary authority: a valid one, and every kind that must be rejected."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme


class Authority:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "authority.pem"
        """Set `SSL_CERT_FILE` to this to trust the authority."""
        self._authority = trustme.CA()
        self._authority.cert_pem.write_to_path(str(self.path))

    def context(self, kind: str = "good") -> ssl.SSLContext:
        """Return the context of a server at 127.0.0.1 with a certificate of this kind."""
        now = datetime.now(UTC)
        match kind:
            case "good":
                certificate = self._authority.issue_cert("127.0.0.1")
            case "expired":
                certificate = self._authority.issue_cert(
                    "127.0.0.1", not_before=now - timedelta(9), not_after=now - timedelta(1)
                )
            case "wrong-host":
                certificate = self._authority.issue_cert("upstream.example")
            case "self-signed":
                certificate = trustme.CA().issue_cert("127.0.0.1")
            case _:
                raise ValueError(kind)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        return context


BAD = ("expired", "wrong-host", "self-signed")
