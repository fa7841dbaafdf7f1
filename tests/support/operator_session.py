"""An operator who uses the pages of a gateway over HTTP, without a browser."""

import re

import httpx

from tests.support.gateway import NO_TLS, Gateway


class Operator:
    def __init__(self, gateway: Gateway) -> None:
        self._pages = httpx.Client(base_url=gateway.url, trust_env=False, timeout=30, verify=NO_TLS)
        self.submit(
            "/admin/login/",
            username="admin",
            password=gateway.environment["ATHENA_ADMIN_PASSWORD"],
        )

    def get(self, path: str) -> str:
        response = self._pages.get(path)
        assert response.status_code == 200, (path, response.status_code)
        return response.text

    def submit(self, path: str, **fields: str) -> httpx.Response:
        """Submit a form with the hidden fields of its page."""
        hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', self.get(path)))
        response = self._pages.post(path, data={**hidden, **fields}, headers={"referer": path})
        assert response.status_code in (200, 302), (path, response.status_code)
        assert "errornote" not in response.text, response.text
        return response

    def close(self) -> None:
        self._pages.close()
