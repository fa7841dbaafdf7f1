"""Bodies for pages and the API: limited in size and time, and never written to disk."""

import asyncio
import contextlib
import os
from pathlib import Path
from tempfile import gettempdir

import pytest

from proxy.http.page_body_limit import _MAX_UPLOADS, MAX_BODY_BYTES, _Uploads
from tests.support.raw_client import answer, connect, post

PATHS = ["/admin/login/", "/api/keys/", "/static/x", "/nowhere"]


def is_plain(seen):
    return seen.headers["content-type"].startswith("text/plain")


def on_disk(gateway):
    """List the deleted files that the process still has open."""
    found = []
    for link in Path(f"/proc/{gateway.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(link))
    return [name for name in found if name.startswith(gettempdir()) and "(deleted)" in name]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("framing", [f"content-length: {2**27}", "transfer-encoding: chunked"])
def test_an_oversized_page_body_is_413_and_never_written_to_disk(gateway, path, framing):
    with connect(gateway.port, post(b"", framing, path=path)) as connection:
        if "chunked" in framing:
            connection.sendall(b"%x\r\n" % 2**27)
            for _ in range(8):
                connection.sendall(b" " * 2**20)
        assert not on_disk(gateway)
        seen = answer(connection, patience=60)
    assert (seen.status, seen.code, seen.is_closed) == (413, "body_too_large", True)
    if path.startswith("/api/"):
        assert "larger than" in seen.json["detail"]
    else:
        assert is_plain(seen)


def test_a_page_body_of_the_maximum_size_is_read_in_memory(gateway):
    body = b"username=" + b"x" * (MAX_BODY_BYTES - 9)
    head = post(b"", f"content-length: {MAX_BODY_BYTES}", path="/nowhere")
    with connect(gateway.port, head.replace(b"host: x", b"host: 127.0.0.1")) as page:
        page.sendall(body[:-1])
        assert not on_disk(gateway)
        page.sendall(body[-1:])
        assert answer(page, patience=0).status in (403, 404)


def test_too_many_page_bodies_at_once_time_out_the_oldest():
    async def main():
        uploads, late, is_over = _Uploads(), [], asyncio.Event()

        async def read(number):
            patience = asyncio.timeout(60)
            try:
                async with patience:
                    uploads.add(patience)
                    await is_over.wait()
            except TimeoutError:
                late.append(number)
                if len(late) == 2:
                    is_over.set()
            finally:
                uploads.discard(patience)

        await asyncio.gather(*(read(number) for number in range(_MAX_UPLOADS + 2)))
        return late

    assert asyncio.run(main()) == [0, 1]
