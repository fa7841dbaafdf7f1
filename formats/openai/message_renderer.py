"""Messages of a conversation → Chat Completions'; the inverse of `formats.openai.message_parser`.

One system message at the front, and only there: chat templates insist on it, and an upstream's
prompt cache needs a front that stays the same. A system message in the middle becomes user text in
its place. Results come first, then whatever they cannot carry themselves: images and files.
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
from formats.history import order_results, short_name
from formats.json_codec import encode_string
from formats.request_errors import BILLING
from formats.tool_cache import cached_by_system

_REASONING_PLACEHOLDER = "(no reasoning was recorded)"
_FORMAT = "anthropic-claude-v1"


class MessageRenderer:
    """Where the target has ids of its own, calls get those that Kimi writes: `functions.NAME:N`,
    counted up."""

    def __init__(self, target: Target, notices: list[Notice]) -> None:
        self._target = target
        self._notices = notices
        self._count = 0
        self._ids: deque[str] = deque()  # of the newest calls, in the order of their results

    def render(self, messages: Iterable[Message]) -> list[dict[str, object]]:
        """The messages behind the system prompt; raises ClientError."""
        out: list[dict[str, object]] = []
        for message in order_results(messages, self._notices):
            if message.role is Role.ASSISTANT:
                if said := self._assistant(message):
                    out.append(said)
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
                    call_id = f"functions.{name}:{self._count}"
                    self._count += 1
                    self._ids.append(call_id)
                function = {"name": name, "arguments": part.arguments.decode()}
                calls.append({"id": call_id, "type": "function", "function": function})
            else:
                others.append(part)
        text = _joined(texts)
        if not (text or calls):
            if message.parts:
                self._note(NoticeCode.REASONING_DROPPED, f"{message.path} has nothing else")
            return None
        fields: dict[str, object] = {"role": "assistant", "content": text}
        if others or (calls and self._target.reasoning_field):
            fields |= self._replayed(others, message.path if calls else None)
        if calls:
            fields["tool_calls"] = calls
        return fields

    def _note(self, code: NoticeCode, detail: str) -> None:
        self._notices.append(Notice(code, detail))

    def _note_once(self, code: NoticeCode, detail: str) -> None:
        if Notice(code, detail) not in self._notices:
            self._note(code, detail)

    def _replayed(self, parts: Iterable[Part], insists: str | None) -> dict[str, object]:
        """Earlier reasoning, where the upstream wants it back; beside calls it insists, and
        `insists` is their message's path."""
        field = self._target.reasoning_field
        thoughts = [p for p in parts if isinstance(p, Reasoning | RedactedReasoning)]
        if field is None:
            if thoughts:
                self._note_once(NoticeCode.REASONING_DROPPED, "the upstream does not take it back")
            return {}
        reasoning = "".join(part.text for part in thoughts if isinstance(part, Reasoning))
        if not reasoning and insists is not None:
            self._note(NoticeCode.REASONING_PLACEHOLDER, insists)
            reasoning = _REASONING_PLACEHOLDER
        fields: dict[str, object] = {field: reasoning} if reasoning else {}
        if field == "reasoning" and (details := [*_details(thoughts)]):
            fields["reasoning_details"] = details
        return fields

    def _user(self, message: Message) -> list[dict[str, object]]:
        out: list[dict[str, object]] = []
        attached: list[Part] = []
        rest: list[Part] = []
        for part in message.parts:
            if type(part) is ToolResult:
                out.append(self._result(part, attached))
            else:
                rest.append(part)
        if not (rest or attached):
            return out
        content: str | list[dict[str, object]]
        texts = [part.text for part in rest if type(part) is Text]
        if attached or len(texts) < len(rest):
            content = self._content(attached + rest, is_system=message.role is Role.SYSTEM)
        else:
            content = _joined(texts)
            if content and message.role is Role.SYSTEM:
                content = _reminder(content)
        if content:
            out.append({"role": "user", "content": content})
        return out

    def _result(self, result: ToolResult, attached: list[Part]) -> dict[str, object]:
        texts: list[str] = []
        for part in result.content:
            text = part.text if type(part) is Text or type(part) is Document else None
            if text is None:
                attached.append(part)
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
    """Sealed reasoning in OpenRouter's form."""
    for part in parts:
        match part:
            case RedactedReasoning(data=data):
                yield {"type": "reasoning.encrypted", "format": _FORMAT, "data": data}
            case Reasoning(text=text, signature=str(signature)):
                detail: dict[str, object] = {"type": "reasoning.text", "format": _FORMAT}
                yield detail | {"text": text, "signature": signature}


@cached_by_system
def render_system(system: tuple[Text, ...]) -> list[dict[str, object]]:
    """The message at the front, if there is any."""
    text = _joined(map(_without_billing, system))
    return [{"role": "system", "content": Raw(encode_string(text))}] if text else []


def _without_billing(part: Text) -> str:
    if BILLING not in part.text:
        return part.text
    lines = part.text.split("\n")
    return "\n".join(line for line in lines if not line.startswith(BILLING)).strip("\n")


def _joined(texts: Iterable[str]) -> str:
    """The texts, without those that are blank."""
    return "\n\n".join([text for text in texts if text and not text.isspace()])


def _reminder(text: str) -> str:
    return f"<system-reminder>\n{text}\n</system-reminder>"
