"""One attempt at one upstream: where its answer is decoded."""

import asyncio
import threading

import pytest

from formats import AUTO, MessageEnd, Tool, Toolbox, build_pipeline
from proxy.serving.attempt import decode_whole
from tests.support.upstream_answers import document
from tests.support.wire import IDENTITY


@pytest.mark.parametrize(("size", "is_in_thread"), [(1_000, False), (200_000, True)])
def test_a_long_whole_answer_is_decoded_in_a_thread(size, is_in_thread):
    """W19: a megabyte of `<` blocked the event loop for three seconds."""
    pipeline = build_pipeline(
        client="openai",
        upstream="openai",
        format_name=AUTO,
        identity=IDENTITY,
        toolbox=Toolbox([Tool("f", None, b"{}")]),
    )
    threads, decode = [], pipeline.decode_whole

    def recorded(body):
        threads.append(threading.get_ident())
        return decode(body)

    pipeline.decode_whole = recorded
    events = asyncio.run(decode_whole(pipeline, document("openai", "<" * size)))
    assert isinstance(events[-1], MessageEnd)
    assert (threads != [threading.get_ident()]) == is_in_thread
