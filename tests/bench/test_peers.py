"""A gateway that was brought along is found, started and named as those of the registries are."""

import sys
import urllib.request

import pytest

from bench import peers
from bench.servers import OPENAI, Server, ServerFailed

SERVES = f"""#!{sys.executable}
import http.server, sys

class Told(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(sys.argv[2].encode())

http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Told).serve_forever()
"""


@pytest.fixture
def bring(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "PEERS", tmp_path)

    def bring(program):
        folder = tmp_path / "brought"
        folder.mkdir()
        (folder / "start").write_text(program)
        (folder / "start").chmod(0o755)
        (folder / "version").write_text("7.1 (by hand)\n")
        [peer] = peers.installed()
        return peer

    return bring


def test_a_brought_peer_serves_on_its_port_and_knows_the_upstream(bring):
    peer = bring(SERVES)
    assert (peer.name, peer.installed) == ("brought", "7.1 (by hand)")
    upstream = Server("direct", None, 4321, OPENAI)
    with peer.start(peer.folder, upstream) as server:
        assert server.name == "brought"
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/") as answer:
            assert answer.read() == b"http://127.0.0.1:4321"
    assert server.process.poll() is not None


def test_one_that_does_not_start_is_told_with_its_last_words(bring):
    peer = bring("#!/bin/sh\necho it is broken >&2\nexit 3\n")
    starting = peer.start(peer.folder, Server("direct", None, 4321, OPENAI))
    with pytest.raises(ServerFailed, match="it is broken"), starting:
        pass


def test_nothing_is_installed_where_nothing_is(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "PEERS", tmp_path)
    assert peers.installed() == []
    assert len(peers.missing()) == len(peers.ALL)
