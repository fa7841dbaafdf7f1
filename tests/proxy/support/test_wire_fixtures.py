"""Wire fixtures: an upstream's bytes give the same events however they are cut.

`manage.py replay --save-fixture` writes the files.
"""

import json
from base64 import b64decode
from pathlib import Path

import pytest

from formats import Identity, Limits, Tool, Toolbox, build_pipeline, merge_deltas
from proxy.audit.transcripts.codec import load_event
from proxy.audit.transcripts.replay_input import decode_again
from tests.support.wire import byte_cuts

FILES = sorted((Path(__file__).parents[2] / "fixtures" / "wire").glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_wire_fixture_gives_the_expected_events_at_any_cut(path):
    fixture = json.loads(path.read_text())
    reading, tools = fixture["reading"], fixture["tools"]
    raw = fixture["raw"].encode() if "raw" in fixture else b64decode(fixture["raw_base64"])
    expected = [load_event(fields) for fields in fixture["expect"]]
    assert fixture["id"] == path.stem
    assert decode_again(raw, reading, tools).events == expected
    if reading["is_whole"]:
        return
    for parts in byte_cuts(raw, 3):
        pipeline = build_pipeline(
            client=reading["client"],
            upstream=reading["upstream"],
            format_name=reading["format"],
            identity=Identity(
                token=reading["token"],
                message_id=f"msg_{reading['token']}",
                model=reading["model"],
                taken_ids=reading["taken_ids"],
            ),
            toolbox=Toolbox(
                [Tool(t["name"], None, json.dumps(t["schema"]).encode()) for t in tools]
            ),
            max_calls=reading["max_calls"],
            limits=Limits(held_chars=reading["held_chars"]),
            strict=reading["strict"],
        )
        events = [event for part in parts for event in pipeline.decode(part)]
        assert merge_deltas(events + pipeline.decode_end()) == expected
