"""A gateway added by hand is found, started and named like those from a registry."""

import sys
import urllib.request

import pytest

from bench import peers
from bench.servers import OPENAI, Server, ServerFailed

SERVER = f"""#!{sys.executable}
import http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(sys.argv[2].encode())

http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture
def add_peer(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "PEERS", tmp_path)

    def add(program):
        folder = tmp_path / "added"
        folder.mkdir()
        (folder / "start").write_text(program)
        (folder / "start").chmod(0o755)
        (folder / "version").write_text("7.1 (by hand)\n")
        [peer] = peers.installed()
        return peer

    return add


def test_an_added_peer_gets_its_port_and_the_upstream(add_peer):
    peer = add_peer(SERVER)
    assert (peer.name, peer.installed) == ("added", "7.1 (by hand)")
    upstream = Server("direct", None, 4321, OPENAI)
    with peer.start(peer.folder, upstream) as server:
        assert server.name == "added"
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/") as answer:
            assert answer.read() == b"http://127.0.0.1:4321"
    assert server.process.poll() is not None


def test_a_peer_that_does_not_start_fails_with_its_output(add_peer):
    peer = add_peer("#!/bin/sh\necho it is broken >&2\nexit 3\n")
    starting = peer.start(peer.folder, Server("direct", None, 4321, OPENAI))
    with pytest.raises(ServerFailed, match="it is broken"), starting:
        pass


def test_no_peers_are_installed_in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "PEERS", tmp_path)
    assert peers.installed() == []
    assert len(peers.missing()) == len(peers.ALL)
