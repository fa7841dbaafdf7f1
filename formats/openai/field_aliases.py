"""Renames top-level fields of the Responses and Anthropic APIs to those of Chat Completions.

Fields that refer to data stored by OpenAI are rejected: without that data, the conversation would
be a different one.
"""

import msgspec
from msgspec import Raw, Struct

from formats.errors import ClientError
from formats.events import Notice, NoticeCode
from formats.json_codec import ABSENT, value_or_none
from formats.openai.content_parser import note_translation
from formats.request_errors import parse_json

_RENAMED = {"max_output_tokens": "max_tokens", "stop_sequences": "stop"}
_SYSTEM = ("instructions", "system")
CLIENTS_OWN = frozenset({"client_metadata"})
"""Fields that no upstream is sent: Codex's ids of the device and the session."""
_STORED = ("previous_response_id", "conversation", "prompt")
_RESPONSES_ONLY = frozenset(
    {
        *_STORED,
        "access_programs",
        "background",
        "context_management",
        "image",
        "include",
        "max_tool_calls",
        "truncation",
    }
)


class _Text(Struct):
    format: Raw = ABSENT
    verbosity: Raw = ABSENT


class _Reasoning(Struct):
    effort: Raw = ABSENT


_texts = msgspec.json.Decoder(_Text)
_formats = msgspec.json.Decoder(dict[str, Raw])
_reasonings = msgspec.json.Decoder(_Reasoning)


def chat_fields(fields: dict[str, Raw], notices: dict[Notice, None]) -> dict[str, Raw]:
    """Return the fields as Chat Completions names them, without `input` and system prompts.

    Raises ClientError.
    """
    source = dict(fields)
    if is_responses(fields):
        note_translation(notices, "input")
        del source["input"]
        _rename_responses(source, notices)
    for name in sorted(CLIENTS_OWN & source.keys()):
        del source[name]
        notices[Notice(NoticeCode.FIELD_DROPPED, name)] = None
    for name, chat_name in _RENAMED.items():
        if value := value_or_none(source.pop(name, ABSENT)):
            source.setdefault(chat_name, Raw(value))
            note_translation(notices, name)
    for name in _SYSTEM:
        if value_or_none(source.pop(name, ABSENT)):
            note_translation(notices, name)
    return source


def is_responses(fields: dict[str, Raw]) -> bool:
    """True if a request has `input` of the Responses API instead of `messages`."""
    return "input" in fields and value_or_none(fields.get("messages", ABSENT)) is None


def _rename_responses(source: dict[str, Raw], notices: dict[Notice, None]) -> None:
    for name in _STORED:
        if value_or_none(source.get(name, ABSENT)):
            raise ClientError(
                "refers to stored data, but Athena stores none: send the whole conversation",
                path=name,
            )
    for name in sorted(_RESPONSES_ONLY & source.keys()):
        if value_or_none(source.pop(name)):
            notices[Notice(NoticeCode.FIELD_DROPPED, name)] = None
    if text := value_or_none(source.pop("text", ABSENT)):
        wire = parse_json(_texts, Raw(text), path="text")
        if verbosity := value_or_none(wire.verbosity):
            source.setdefault("verbosity", Raw(verbosity))
        if format_ := value_or_none(wire.format):
            source.setdefault("response_format", _response_format(Raw(format_)))
    if reasoning := value_or_none(source.pop("reasoning", ABSENT)):
        effort = value_or_none(parse_json(_reasonings, Raw(reasoning), path="reasoning").effort)
        if effort:
            source.setdefault("reasoning_effort", Raw(effort))


def _response_format(format_: Raw) -> Raw:
    """Move the fields of a schema, which Responses has next to its type, into `json_schema`."""
    schema = parse_json(_formats, format_, path="text.format")
    kind = schema.pop("type", ABSENT)
    if kind != Raw(b'"json_schema"'):
        return format_
    return Raw(msgspec.json.encode({"type": kind, "json_schema": schema}))
