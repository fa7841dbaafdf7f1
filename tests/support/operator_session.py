"""An operator at a gateway's pages, over HTTP, as a browser without a screen would do it."""

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
        """Send a form; hidden fields of its page go with it."""
        hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', self.get(path)))
        response = self._pages.post(path, data={**hidden, **fields}, headers={"referer": path})
        assert response.status_code in (200, 302), (path, response.status_code)
        assert "errornote" not in response.text, response.text
        return response

    def close(self) -> None:
        self._pages.close()
