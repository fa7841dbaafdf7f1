"""Frames of an Anthropic upstream's stream, built by hand."""

import json

EMPTY = {"type": "text", "text": ""}


def event(kind, **fields):
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def block(index, start, *deltas, stop=True):
    body = event("content_block_start", index=index, content_block=start)
    body += b"".join(event("content_block_delta", index=index, delta=delta) for delta in deltas)
    return body + (event("content_block_stop", index=index) if stop else b"")


def text(value):
    return {"type": "text_delta", "text": value}


def part(value):
    return {"type": "input_json_delta", "partial_json": value}


def tool(name="f", call_id="toolu_1", **fields):
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}, **fields}


def message(*blocks, stop="end_turn", usage=None):
    counts = {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": 4}
    start = {"id": "msg_9", "model": "m", "content": [], "usage": counts}
    end = {"stop_reason": stop, "stop_sequence": None}
    return (
        event("message_start", message=start)
        + event("ping")
        + b"".join(blocks)
        + event("message_delta", delta=end, usage=usage or {"output_tokens": 7})
        + event("message_stop")
    )
