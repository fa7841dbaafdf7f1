"""Renders messages of a conversation for Chat Completions; the inverse of `message_parser`.

There is one system message, at the start: chat templates require that, and the upstream's prompt
cache needs a constant start. A later system message becomes user text in its place. Tool results
come first, then the images and files that a tool message cannot contain.
"""

from collections import deque
from collections.abc import Iterable, Iterator

from msgspec import Raw

from formats.conversation import (
    Document,
    Image,
    Message,
    Part,
    Reasoning,
    RedactedReasoning,
    Role,
    Target,
    Text,
    ToolCall,
    ToolResult,
)
from formats.events import Notice, NoticeCode
from formats.history import order_results
from formats.json_codec import encode_string
from formats.target_limits import BILLING, short_name
from formats.tool_cache import cached_by_system

_REASONING_PLACEHOLDER = "(no reasoning was recorded)"
_FORMAT = "anthropic-claude-v1"


class MessageRenderer:
    """Renders the messages of one request.

    If the target has native ids, calls are counted: `functions.NAME:N` for Kimi, and nine digits
    for Mistral.
    """

    def __init__(self, target: Target, notices: list[Notice]) -> None:
        self._target = target
        self._notices = notices
        self._count = 0
        # Ids of the last message's calls, in the order of their results.
        self._ids: deque[str] = deque()

    def render(self, messages: Iterable[Message]) -> list[dict[str, object]]:
        """Render the messages after the system prompt; raises ClientError."""
        out: list[dict[str, object]] = []
        for message in order_results(messages, self._notices):
            if message.role is Role.ASSISTANT:
                if rendered := self._assistant(message):
                    out.append(rendered)
            else:
                out += self._user(message)
        return out

    def _assistant(self, message: Message) -> dict[str, object] | None:
        texts: list[str] = []
        calls: list[dict[str, object]] = []
        others: list[Part] = []
        self._ids.clear()
        for part in message.parts:
            if type(part) is Text:
                texts.append(part.text)
            elif type(part) is ToolCall:
                name, call_id = short_name(part.name), part.id
                if self._target.native_ids:
                    is_kimi = self._target.native_ids == "kimi"
                    call_id = f"functions.{name}:{self._count}" if is_kimi else f"{self._count:09}"
                    self._count += 1
                    self._ids.append(call_id)
                function = {"name": name, "arguments": part.arguments.decode()}
                calls.append({"id": call_id, "type": "function", "function": function})
            else:
                others.append(part)
        text = _join(texts)
        if not (text or calls):
            if message.parts:
                self._note(NoticeCode.REASONING_DROPPED, f"{message.path} has nothing else")
            return None
        fields: dict[str, object] = {"role": "assistant", "content": text}
        if others or (calls and self._target.reasoning_field):
            fields |= self._reasoning(others, message.path if calls else None)
        if calls:
            fields["tool_calls"] = calls
        return fields

    def _note(self, code: NoticeCode, detail: str) -> None:
        self._notices.append(Notice(code, detail))

    def _note_once(self, code: NoticeCode, detail: str) -> None:
        if Notice(code, detail) not in self._notices:
            self._note(code, detail)

    def _reasoning(self, parts: Iterable[Part], call_path: str | None) -> dict[str, object]:
        """Render earlier reasoning if the upstream accepts it. A message with calls must have some.

        `call_path` is the path of the message if it has calls.
        """
        field = self._target.reasoning_field
        reasoning_parts = [p for p in parts if isinstance(p, Reasoning | RedactedReasoning)]
        if field is None:
            if reasoning_parts:
                self._note_once(NoticeCode.REASONING_DROPPED, "the upstream does not accept it")
            return {}
        reasoning = "".join(part.text for part in reasoning_parts if isinstance(part, Reasoning))
        if not reasoning and call_path is not None:
            self._note(NoticeCode.REASONING_PLACEHOLDER, call_path)
            reasoning = _REASONING_PLACEHOLDER
        fields: dict[str, object] = {field: reasoning} if reasoning else {}
        if field == "reasoning" and (details := [*_details(reasoning_parts)]):
            fields["reasoning_details"] = details
        return fields

    def _user(self, message: Message) -> list[dict[str, object]]:
        out: list[dict[str, object]] = []
        attachments: list[Part] = []
        rest: list[Part] = []
        for part in message.parts:
            if type(part) is ToolResult:
                out.append(self._result(part, attachments))
            else:
                rest.append(part)
        if not (rest or attachments):
            return out
        content: str | list[dict[str, object]]
        texts = [part.text for part in rest if type(part) is Text]
        if attachments or len(texts) < len(rest):
            content = self._content(attachments + rest, is_system=message.role is Role.SYSTEM)
        else:
            content = _join(texts)
            if content and message.role is Role.SYSTEM:
                content = _reminder(content)
        if content:
            out.append({"role": "user", "content": content})
        return out

    def _result(self, result: ToolResult, attachments: list[Part]) -> dict[str, object]:
        texts: list[str] = []
        for part in result.content:
            text = part.text if type(part) is Text or type(part) is Document else None
            if text is None:
                attachments.append(part)
            texts.append("(see the attachment in the next message)" if text is None else text)
        text = "\n\n".join(texts)
        if result.is_error and not text.startswith(("<tool_use_error>", "Error")):
            text = f"Error: {text}"
        call_id = self._ids.popleft() if self._ids else result.call_id
        return {"role": "tool", "tool_call_id": call_id, "content": text}

    def _content(self, parts: Iterable[Part], *, is_system: bool) -> str | list[dict[str, object]]:
        content = [*self._items(parts)]
        text = "\n\n".join(str(item["text"]) for item in content if "text" in item)
        if content and is_system:
            text = _reminder(text)
            content = [{"type": "text", "text": text}, *(c for c in content if "text" not in c)]
        return text if all(item["type"] == "text" for item in content) else content

    def _items(self, parts: Iterable[Part]) -> Iterator[dict[str, object]]:
        for part in parts:
            match part:
                case Text(text=text) | Document(text=str(text)):
                    if text.strip():
                        yield {"type": "text", "text": text}
                case Image() if self._target.images:
                    url = part.url or f"data:{part.media_type};base64,{part.data}"
                    yield {"type": "image_url", "image_url": {"url": url}}
                case Document(data=str(data)) if self._target.files:
                    file = {"filename": part.title or "document.pdf"}
                    file["file_data"] = f"data:{part.media_type};base64,{data}"
                    yield {"type": "file", "file": file}
                case Document(url=str(url)):
                    yield {"type": "text", "text": f"[document: {url}]"}
                case Image() | Document():
                    kind = type(part).__name__.lower()
                    self._note(NoticeCode.CONTENT_UNSUPPORTED, kind)
                    yield {"type": "text", "text": f"[{kind} omitted: this model cannot read it]"}


def _details(parts: Iterable[Reasoning | RedactedReasoning]) -> Iterator[dict[str, object]]:
    """Signed or encrypted reasoning as OpenRouter's `reasoning_details`."""
    for part in parts:
        match part:
            case RedactedReasoning(data=data):
                yield {"type": "reasoning.encrypted", "format": _FORMAT, "data": data}
            case Reasoning(text=text, signature=str(signature)):
                detail: dict[str, object] = {"type": "reasoning.text", "format": _FORMAT}
                yield detail | {"text": text, "signature": signature}


@cached_by_system
def render_system(system: tuple[Text, ...]) -> list[dict[str, object]]:
    """Render the system message; an empty list if there is no text."""
    text = _join(map(_without_billing, system))
    return [{"role": "system", "content": Raw(encode_string(text))}] if text else []


def _without_billing(part: Text) -> str:
    if BILLING not in part.text:
        return part.text
    lines = part.text.split("\n")
    return "\n".join(line for line in lines if not line.startswith(BILLING)).strip("\n")


def _join(texts: Iterable[str]) -> str:
    """Join the texts that are not blank."""
    return "\n\n".join([text for text in texts if text and not text.isspace()])


def _reminder(text: str) -> str:
    return f"<system-reminder>\n{text}\n</system-reminder>"
