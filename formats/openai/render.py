"""Conversation → Chat Completions request; the inverse of `formats.openai.request`.

One system message at the front, and only there: chat templates insist on it, and an upstream's
prompt cache needs a front that stays the same. A system message in the middle becomes user text in
its place. Results come first, then whatever they cannot carry themselves: images and files.
"""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Raw

from formats.codec import raw_string
from formats.conversation import (
    Conversation,
    Document,
    Image,
    Message,
    Part,
    Reasoning,
    ReasoningMode,
    RedactedReasoning,
    Rendered,
    Role,
    Target,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from formats.events import Notice, NoticeCode
from formats.history import Names, numbered_ids, ordered
from formats.openai.own import ABOUT_TOOLS, REASONING, is_kept, own_fields, own_text
from formats.request import BILLING, check_messages, check_tools, fitted_max_tokens, fitted_user

_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_REASONING_PLACEHOLDER = "(no reasoning was recorded)"
# What is made anew, if need be, of a request in the client's own dialect.
_MADE = ABOUT_TOOLS | {"messages"}
_FORMAT = "anthropic-claude-v1"

_encode = msgspec.json.encode


def render(conversation: Conversation, target: Target, *, stream: bool = True) -> Rendered:
    """The request for an OpenAI-dialect upstream; raises ClientError."""
    return _Renderer(conversation, target).render(stream=stream)


class _Renderer:
    def __init__(self, conversation: Conversation, target: Target) -> None:
        self._conversation = conversation
        self._target = target
        self._notices: list[Notice] = []
        self._names = Names(conversation, self._notices)

    def render(self, *, stream: bool) -> Rendered:
        conversation = self._conversation
        check_tools(conversation, self._target)
        messages = self._messages()
        check_messages(messages)
        made: dict[str, object] = {"messages": messages, **self._tools()}
        max_tokens = fitted_max_tokens(conversation, self._target, self._notices)
        if conversation.dialect == "openai":
            if is_kept(conversation, self._target, self._notices):
                self._notices = [n for n in self._notices if n.code not in REASONING]
                if body := own_text(conversation, self._target, max_tokens, stream=stream):
                    return Rendered(body, tuple(self._notices))
                made = own_fields(conversation, max_tokens)
            else:
                made |= self._other_fields(max_tokens)
        else:
            made |= self._sampling(max_tokens) | self._reasoning()
            self._drop_server_tools()
            self._notices += conversation.notices
        fields = {"model": self._target.model or conversation.model, **made, "stream": stream}
        fields |= self._target.fields
        if stream:
            fields["stream_options"] = {"include_usage": True}
        return Rendered(_encode(fields), tuple(self._notices), self._names.aliases)

    def _other_fields(self, max_tokens: int | None) -> dict[str, object]:
        """The client's own fields, beside messages and tools that had to be changed."""
        conversation = self._conversation
        self._drop_server_tools()
        kept = {Notice(NoticeCode.FIELD_DROPPED, name) for name in conversation.source}
        self._notices += [notice for notice in conversation.notices if notice not in kept]
        fields = own_fields(conversation, max_tokens)
        return {name: value for name, value in fields.items() if name not in _MADE}

    def _drop(self, code: NoticeCode, *details: str) -> None:
        self._notices += [Notice(code, detail) for detail in details]

    def _drop_server_tools(self) -> None:
        tools = self._conversation.server_tools
        self._drop(NoticeCode.SERVER_TOOL_DROPPED, *(tool.type for tool in tools))

    def _drop_once(self, code: NoticeCode, detail: str) -> None:
        if Notice(code, detail) not in self._notices:
            self._drop(code, detail)

    def _tools(self) -> dict[str, object]:
        conversation = self._conversation
        choice = conversation.tool_choice
        if not conversation.tools:
            return {}
        fields: dict[str, object] = {"tools": [self._tool(tool) for tool in conversation.tools]}
        if choice.mode == "tool":
            function = {"name": self._names.short(choice.name or "")}
            fields["tool_choice"] = {"type": "function", "function": function}
        elif choice.mode != "auto":
            fields["tool_choice"] = _CHOICES[choice.mode]
        if not choice.parallel:
            fields["parallel_tool_calls"] = False
        return fields

    def _tool(self, tool: Tool) -> dict[str, object]:
        function: dict[str, object] = {"name": self._names.short(tool.name)}
        if tool.description:
            function["description"] = raw_string(tool.description)
        function["parameters"] = Raw(tool.schema)
        if tool.strict is not None:
            function["strict"] = tool.strict
        return {"type": "function", "function": function}

    def _sampling(self, max_tokens: int | None) -> dict[str, object]:
        conversation = self._conversation
        sampling = conversation.sampling
        schema = None
        if conversation.output_schema:
            answer = {"name": "answer", "schema": Raw(conversation.output_schema), "strict": True}
            schema = {"type": "json_schema", "json_schema": answer}
        fields = {
            "max_tokens": max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "stop": list(sampling.stop) or None,
            "user": fitted_user(sampling.user),
            "response_format": schema,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def _reasoning(self) -> dict[str, object]:
        mode = self._conversation.reasoning
        match self._target.reasoning_request:
            case "openrouter":
                if mode.enabled is False:
                    return {"reasoning": {"enabled": False}}
                if mode.effort:
                    return {"reasoning": {"effort": mode.effort}}
                if mode.budget:
                    return {"reasoning": {"max_tokens": mode.budget}}
                return {"reasoning": {"enabled": True}} if mode.enabled else {}
            case "effort" if mode.effort and mode.enabled is not False:
                return {"reasoning_effort": mode.effort}
        if mode != ReasoningMode():
            self._drop(NoticeCode.FIELD_DROPPED, "thinking")
        return {}

    def _messages(self) -> list[dict[str, object]]:
        messages = ordered(self._conversation.messages, self._notices)
        if self._target.native_ids:
            messages = numbered_ids(messages, self._names.short)
        out: list[dict[str, object]] = []
        texts = map(_without_billing, self._conversation.system)
        if system := "\n\n".join(text for text in texts if text.strip()):
            out.append({"role": "system", "content": raw_string(system)})
        for message in messages:
            if message.role is Role.ASSISTANT:
                out += self._assistant(message)
            else:
                out += self._user(message)
        return out

    def _assistant(self, message: Message) -> Iterator[dict[str, object]]:
        texts = [part.text for part in message.parts if isinstance(part, Text)]
        text = "\n\n".join(text for text in texts if text.strip())
        calls = [part for part in message.parts if isinstance(part, ToolCall)]
        if not (text or calls):
            if message.parts:
                self._drop(NoticeCode.REASONING_DROPPED, f"{message.path} has nothing else")
            return
        fields: dict[str, object] = {"role": "assistant", "content": raw_string(text)}
        fields |= self._replayed(message, bool(calls))
        if calls:
            fields["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {
                        "name": self._names.short(call.name),
                        "arguments": raw_string(call.arguments.decode()),
                    },
                }
                for call in calls
            ]
        yield fields

    def _replayed(self, message: Message, has_calls: bool) -> dict[str, object]:
        """Earlier reasoning, where the upstream wants it back; beside calls it insists."""
        field = self._target.reasoning_field
        parts = [p for p in message.parts if isinstance(p, Reasoning | RedactedReasoning)]
        if field is None:
            if parts:
                self._drop_once(NoticeCode.REASONING_DROPPED, "the upstream does not take it back")
            return {}
        reasoning = "".join(part.text for part in parts if isinstance(part, Reasoning))
        if not reasoning and has_calls:
            self._drop(NoticeCode.REASONING_PLACEHOLDER, message.path)
            reasoning = _REASONING_PLACEHOLDER
        fields: dict[str, object] = {field: raw_string(reasoning)} if reasoning else {}
        if field == "reasoning" and (details := [*_details(parts)]):
            fields["reasoning_details"] = details
        return fields

    def _user(self, message: Message) -> Iterator[dict[str, object]]:
        attached: list[Part] = []
        rest: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolResult):
                yield self._result(part, attached)
            else:
                rest.append(part)
        content = [*self._content([*attached, *rest])]
        if not content:
            return
        text = "\n\n".join(str(item["text"]) for item in content if "text" in item)
        if message.role is Role.SYSTEM:
            text = f"<system-reminder>\n{text}\n</system-reminder>"
            content = [{"type": "text", "text": text}, *(c for c in content if "text" not in c)]
        if all(item["type"] == "text" for item in content):
            yield {"role": "user", "content": raw_string(text)}
        else:
            yield {"role": "user", "content": content}

    def _result(self, result: ToolResult, attached: list[Part]) -> dict[str, object]:
        texts: list[str] = []
        for part in result.content:
            match part:
                case Text(text=text) | Document(text=str(text)):
                    texts.append(text)
                case _:
                    attached.append(part)
                    texts.append("(see the attachment in the next message)")
        text = "\n\n".join(texts)
        if result.is_error and not text.startswith(("<tool_use_error>", "Error")):
            text = f"Error: {text}"
        content = raw_string(text)
        return {"role": "tool", "tool_call_id": result.call_id, "content": content}

    def _content(self, parts: Iterable[Part]) -> Iterator[dict[str, object]]:
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
                    self._drop(NoticeCode.CONTENT_UNSUPPORTED, kind)
                    yield {"type": "text", "text": f"[{kind} omitted: this model cannot read it]"}


def _details(parts: Iterable[Reasoning | RedactedReasoning]) -> Iterator[dict[str, object]]:
    """Sealed reasoning in OpenRouter's form."""
    for part in parts:
        match part:
            case RedactedReasoning(data=data):
                yield {"type": "reasoning.encrypted", "format": _FORMAT, "data": data}
            case Reasoning(text=text, signature=str(signature)):
                detail: dict[str, object] = {"type": "reasoning.text", "format": _FORMAT}
                yield detail | {"text": raw_string(text), "signature": signature}


def _without_billing(part: Text) -> str:
    if BILLING not in part.text:
        return part.text
    lines = part.text.split("\n")
    return "\n".join(line for line in lines if not line.startswith(BILLING)).strip("\n")
