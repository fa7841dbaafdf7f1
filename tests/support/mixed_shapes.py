"""Conversations, and the shapes in which clients send the same one to a chat endpoint."""

import json
from typing import Any

from hypothesis import strategies as st

from tests.support.strategies import arguments, names, prose

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
PIXEL = "data:image/png;base64,AAAA"
_ids = st.uuids().map(lambda uuid: f"call_{uuid.hex[:12]}")
_texts = prose.filter(str.strip)


@st.composite
def turns(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Turns of users, assistants with calls, and results of the calls."""
    conversation: list[dict[str, Any]] = [{"who": "user", "text": draw(_texts), "image": False}]
    for _ in range(draw(st.integers(0, 3))):
        calls = [
            {"id": draw(_ids), "name": draw(names), "arguments": draw(arguments)}
            for _ in range(draw(st.integers(0, 3)))
        ]
        text = draw(_texts if not calls else st.just("") | _texts)
        thought = draw(st.just("") | _texts)
        conversation.append({"who": "assistant", "text": text, "thought": thought, "calls": calls})
        conversation += [{"who": "tool", "id": call["id"], "text": draw(_texts)} for call in calls]
        conversation.append({"who": "user", "text": draw(_texts), "image": draw(st.booleans())})
    return conversation


def plain(conversation: list[dict[str, Any]], system: str) -> list[dict[str, Any]]:
    """Return the messages in the documented shape of Chat Completions."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    for turn in conversation:
        match turn["who"]:
            case "user":
                content: Any = turn["text"]
                if turn["image"]:
                    image = {"type": "image_url", "image_url": {"url": PIXEL}}
                    content = [{"type": "text", "text": turn["text"]}, image]
                messages.append({"role": "user", "content": content})
            case "tool":
                messages.append(
                    {"role": "tool", "tool_call_id": turn["id"], "content": turn["text"]}
                )
            case _:
                messages.append(_plain_assistant(turn))
    return messages


def _plain_assistant(turn: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": turn["text"] or None}
    if turn["thought"]:
        message["reasoning_content"] = turn["thought"]
    if turn["calls"]:
        message["tool_calls"] = [
            {"id": c["id"], "type": "function", "function": _function(c)} for c in turn["calls"]
        ]
    return message


def _function(call: dict[str, Any]) -> dict[str, Any]:
    return {"name": call["name"], "arguments": json.dumps(call["arguments"])}


@st.composite
def mixed(draw: st.DrawFn, conversation: list[dict[str, Any]], system: str) -> dict[str, Any]:
    """Return the fields of a request with each message in the shape of any of the APIs."""
    if draw(st.booleans()):
        return _responses(draw, conversation, system)
    fields: dict[str, Any] = {"messages": []}
    messages = fields["messages"]
    match draw(st.sampled_from(["message", "developer", "field", "blocks"])) if system else None:
        case "message":
            messages.append({"role": "system", "content": system})
        case "developer":
            messages.append({"role": "developer", "content": [_text("input_text", system)]})
        case "field":
            fields["system"] = system
        case "blocks":
            fields["system"] = [{**_text("text", system), "cache_control": {"type": "ephemeral"}}]
    for turn, message in zip(conversation, plain(conversation, ""), strict=True):
        if draw(st.booleans()):
            messages.append(message)
        elif turn["who"] == "user":
            messages.append({"role": "user", "content": _user_parts(draw, turn)})
        elif turn["who"] == "assistant":
            messages.append(_odd_assistant(draw, turn, message))
        else:
            result: dict[str, Any] = {"type": "tool_result", "tool_use_id": turn["id"]}
            result["content"] = draw(st.sampled_from([turn["text"], [_text("text", turn["text"])]]))
            role = draw(st.sampled_from(["user", "tool"]))
            messages.append({"role": role, "content": [result]})
    return fields


def _text(kind: str, text: str) -> dict[str, Any]:
    return {"type": kind, "text": text}


def _user_parts(draw: st.DrawFn, turn: dict[str, Any]) -> list[dict[str, Any]]:
    parts = [_text(draw(st.sampled_from(["text", "input_text"])), turn["text"])]
    if turn["image"]:
        source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
        images = [
            {"type": "image", "source": source},
            {"type": "input_image", "image_url": PIXEL},
            {"type": "image_url", "image_url": PIXEL},
        ]
        parts.append(draw(st.sampled_from(images)))
    return parts


def _odd_assistant(
    draw: st.DrawFn, turn: dict[str, Any], message: dict[str, Any]
) -> dict[str, Any]:
    if turn["calls"] and not turn["text"] and draw(st.booleans()):
        return {**message, "content": []}
    blocks: list[dict[str, Any]] = []
    if turn["thought"]:
        blocks.append({"type": "thinking", "thinking": turn["thought"], "signature": ""})
    if turn["text"]:
        blocks.append(_text("text", turn["text"]))
    for call in turn["calls"]:
        use = {"type": "tool_use", "id": call["id"], "name": call["name"]}
        blocks.append({**use, "input": call["arguments"]})
    return {"role": "assistant", "content": blocks}


def _responses(draw: st.DrawFn, conversation: list[dict[str, Any]], system: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"input": []}
    items = fields["input"]
    if system and draw(st.booleans()):
        fields["instructions"] = system
    elif system:
        items.append({"role": "developer", "content": system})
    for turn in conversation:
        match turn["who"]:
            case "user" if turn["image"] or draw(st.booleans()):
                item = {"role": "user", "content": _user_parts(draw, turn)}
                items.append(draw(st.sampled_from([item, {"type": "message", **item}])))
            case "user":
                items.append({"role": "user", "content": turn["text"]})
            case "tool":
                output = draw(st.sampled_from([turn["text"], [_text("input_text", turn["text"])]]))
                item = {"type": "function_call_output", "call_id": turn["id"], "output": output}
                items.append(item)
            case _:
                items += _assistant_items(turn)
    return fields


def _assistant_items(turn: dict[str, Any]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if turn["thought"]:
        thought = _text("summary_text", turn["thought"])
        items.append({"type": "reasoning", "id": "rs_1", "summary": [thought]})
    if turn["text"]:
        content = [{**_text("output_text", turn["text"]), "annotations": []}]
        items.append({"type": "message", "id": "m_1", "role": "assistant", "content": content})
    for call in turn["calls"]:
        item = {"type": "function_call", "id": "fc_1", "call_id": call["id"], **_function(call)}
        items.append(item)
    return items


def spelled_tool(name: str, shape: str) -> dict[str, Any]:
    """Return a tool in the shape of one of the APIs."""
    function = {"name": name, "description": "Does it.", "parameters": SCHEMA}
    match shape:
        case "chat":
            return {"type": "function", "function": function}
        case "responses":
            return {"type": "function", **function}
        case "untyped":
            return function
    tool = {"name": name, "description": "Does it.", "input_schema": SCHEMA}
    return {"type": "custom", **tool} if shape == "typed anthropic" else tool


TOOL_SHAPES = ["chat", "responses", "untyped", "anthropic", "typed anthropic"]
