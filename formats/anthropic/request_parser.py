"""Parses Anthropic Messages requests into conversations.

Unknown fields never fail a request. `Conversation.notices` names them for upstreams of another
dialect; `Conversation.source` keeps them for upstreams of this one.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from formats.anthropic.content_parser import BlockParser, PlainMessage
from formats.anthropic.request_wire import WireRequest, WireToolChoice
from formats.anthropic.tool_parser import parse_tools
from formats.complexity import (
    DEFAULT_COMPLEXITY,
    Complexity,
    Fields,
    check_fields,
    check_nodes,
    check_unread,
    with_complexity_check,
)
from formats.conversation import (
    Conversation,
    Message,
    ReasoningMode,
    Role,
    Sampling,
    ToolChoice,
)
from formats.errors import ClientError
from formats.events import Notice, NoticeCode
from formats.json_codec import ABSENT, value_or_none
from formats.model_fields import check_case
from formats.request_errors import parse_json, require, require_object
from formats.turn_cache import RequestSettings, TurnCache

_requests = msgspec.json.Decoder(WireRequest)
_messages = msgspec.json.Decoder(list[dict[str, Raw]])
_plain_messages: "msgspec.json.Decoder[list[Any]]" = msgspec.json.Decoder(list[PlainMessage])
_roles = msgspec.json.Decoder(str)

# Decoded separately, each in one pass: they are nearly all of a request's bytes.
_LARGE = frozenset({"system", "messages", "tools"})
_KNOWN = frozenset({*WireRequest.__struct_fields__, *_LARGE, "thread"})
_KNOWN_MESSAGE_FIELDS = frozenset({"role", "content"})
_ROLES = {role.value: role for role in Role}
_NULL = Raw(b"null")


_turns = TurnCache()


def parse(body: bytes, max_complexity: Complexity = DEFAULT_COMPLEXITY) -> Conversation:
    """Parse a request body; raises ClientError."""
    turn = _turns.lookup(body, max_complexity)
    if turn is not None:
        # On any error the whole request is parsed, which gives the right message.
        with suppress(ClientError, UnicodeDecodeError):
            check_nodes(body, max_complexity)
            known = turn.settings.conversation
            blocks = BlockParser(known.tools, known.notices)
            messages = tuple(_parse_messages(turn.fields["messages"], blocks))
            check_unread(body, blocks.unread, max_complexity)
            return _conversation(body, turn.fields, turn.settings, messages, blocks)
    return _parse_whole(body, max_complexity)


@with_complexity_check
def _parse_whole(body: bytes, source: Fields, max_complexity: Complexity) -> Conversation:
    check_fields(body, source, max_complexity, except_fields=_LARGE)
    check_case(source)
    if value_or_none(source.get("thread", ABSENT)):
        raise ClientError(
            "threads are not supported: send the whole conversation",
            path="thread",
            details={"error_code": "thread_unsupported_request", "unsupported": ["thread"]},
        )
    small = {name: value for name, value in source.items() if name not in _LARGE}
    wire = parse_json(_requests, msgspec.json.encode(small))
    parsed_tools = parse_tools(bytes(source.get("tools", _NULL)), max_complexity)
    unknown = sorted(source.keys() - _KNOWN)
    notices = (*(Notice(NoticeCode.FIELD_DROPPED, name) for name in unknown), *parsed_tools.notices)
    blocks = BlockParser(parsed_tools.tools, notices)
    messages = tuple(_parse_messages(source.get("messages"), blocks))
    prompt = BlockParser(parsed_tools.tools)
    system = tuple(prompt.texts(source.get("system", ABSENT), "system"))
    check_unread(body, blocks.unread + prompt.unread, max_complexity)
    without_messages = Conversation(
        model=wire.model,
        messages=(),
        system=system,
        tools=parsed_tools.tools,
        server_tools=parsed_tools.server_tools,
        tool_choice=_parse_tool_choice(wire.tool_choice),
        sampling=Sampling(
            max_tokens=wire.max_tokens,
            temperature=wire.temperature,
            top_p=wire.top_p,
            top_k=wire.top_k,
            stop=tuple(wire.stop_sequences or ()),
            user=wire.metadata.user_id if wire.metadata else None,
        ),
        reasoning=_parse_reasoning(wire),
        output_schema=_output_schema(wire),
        stream=bool(wire.stream),
        dialect="anthropic",
        notices=notices,
    )
    settings = RequestSettings(without_messages, tuple(prompt.notices))
    _turns.store(body, source, max_complexity, settings)
    return _conversation(body, source, settings, messages, blocks)


def _conversation(
    body: bytes,
    source: Fields,
    settings: RequestSettings,
    messages: tuple[Message, ...],
    blocks: BlockParser,
) -> Conversation:
    notices = tuple(blocks.notices | dict.fromkeys(settings.later_notices))
    return replace(
        settings.conversation, messages=messages, source=source, body=body, notices=notices
    )


def _parse_messages(messages: Raw | None, blocks: BlockParser) -> Iterator[Message]:
    text = require(messages, "messages")
    try:
        plain = _plain_messages.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        blocks.unread.append(bytes(text))
        yield from _parse_unusual_messages(text, blocks)
        return
    _require_message(plain)
    for index, message in enumerate(plain):
        path, role = f"messages.{index}", message.role
        yield Message(role, tuple(blocks.parts(message.content, role, f"{path}.content")), path)


def _parse_unusual_messages(messages: Raw, blocks: BlockParser) -> Iterator[Message]:
    """Parse messages that have unknown fields or are invalid."""
    wire = parse_json(_messages, messages, path="messages")
    _require_message(wire)
    for index, fields in enumerate(wire):
        path = f"messages.{index}"
        name = parse_json(_roles, require(fields.get("role"), f"{path}.role"), path=f"{path}.role")
        if name not in _ROLES:
            raise ClientError(
                f"must be 'user', 'assistant' or 'system', not {name[:40]!r}", path=f"{path}.role"
            )
        for unknown in fields.keys() - _KNOWN_MESSAGE_FIELDS:
            blocks.drop(NoticeCode.FIELD_DROPPED, f"messages[].{unknown}")
        content = fields.get("content", ABSENT)
        parts = blocks.parts(content, _ROLES[name], f"{path}.content")
        yield Message(_ROLES[name], tuple(parts), path)


def _require_message(messages: Sequence[object]) -> None:
    if not messages:
        raise ClientError("at least one message is required", path="messages")


def _parse_tool_choice(choice: WireToolChoice | None) -> ToolChoice:
    if choice is None:
        return ToolChoice()
    parallel = not choice.disable_parallel_tool_use
    match choice.type:
        case "auto" | "any" | "none":
            return ToolChoice(choice.type, parallel=parallel)
        case "tool":
            if choice.name is None:
                raise ClientError("is required", path="tool_choice.name")
            return ToolChoice("tool", choice.name, parallel)
    raise ClientError(f"unknown type {choice.type[:40]!r}", path="tool_choice.type")


def _parse_reasoning(wire: WireRequest) -> ReasoningMode:
    effort = wire.output_config.effort if wire.output_config else None
    if wire.thinking is None:
        return ReasoningMode(effort=effort)
    return ReasoningMode(wire.thinking.type != "disabled", wire.thinking.budget_tokens, effort)


def _output_schema(wire: WireRequest) -> bytes | None:
    format_, path = (
        wire.output_config.format if wire.output_config else None,
        "output_config.format",
    )
    if format_ is None:
        format_, path = wire.output_format, "output_format"
    schema = value_or_none(format_.schema) if format_ else None
    return require_object(schema, path=f"{path}.schema") if schema else None
