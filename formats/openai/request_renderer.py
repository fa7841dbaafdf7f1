"""Renders a conversation as a Chat Completions request; the inverse of `request_parser`."""

from msgspec import Raw

from formats.conversation import Conversation, ReasoningMode, Rendered, Target, Tool
from formats.events import Notice, NoticeCode
from formats.json_codec import encode
from formats.openai.field_aliases import CLIENTS_OWN
from formats.openai.message_renderer import MessageRenderer, render_system
from formats.openai.passthrough_request import (
    REASONING_NOTICES,
    TOOL_FIELDS,
    can_pass,
    declared_server_tools,
    passthrough_body,
    passthrough_fields,
    repaired_tools,
)
from formats.target_limits import (
    check_messages,
    check_tools,
    clamped_max_tokens,
    hides_thinking,
    leave_out_server_tools,
    short_name,
    short_user_id,
    shortened_names,
)
from formats.tool_cache import cached_by_tools
from formats.tool_schema import repair_notices, with_properties

_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_EFFORTS = ((4096, "low"), (16_384, "medium"))
"""The largest budget of each effort. Claude Code's words for thinking ask for 4,000, 10,000 and
31,999 tokens."""
_RENDERED_FIELDS = TOOL_FIELDS | {"messages"}


def render(conversation: Conversation, target: Target, *, stream: bool = True) -> Rendered:
    """Render the request for an upstream of this dialect; raises ClientError."""
    return _Renderer(conversation, target).render(stream=stream)


class _Renderer:
    def __init__(self, conversation: Conversation, target: Target) -> None:
        self._conversation = conversation
        self._target = target
        self._notices: list[Notice] = []
        self._aliases: dict[str, str] = {}
        self._notices += _repairs(conversation.tools)
        for short, name in shortened_names(conversation.tools):
            self._aliases[short] = name
            self._drop(NoticeCode.NAME_SHORTENED, f"{name} → {short}")

    def render(self, *, stream: bool) -> Rendered:
        conversation = self._conversation
        check_tools(conversation, self._target)
        messages = MessageRenderer(self._target, self._notices).render(conversation.messages)
        check_messages(messages or render_system(conversation.system))
        max_tokens = clamped_max_tokens(conversation, self._target, self._notices)
        rendered: dict[str, object]
        if conversation.dialect == "openai":
            if can_pass(conversation, self._target, self._notices):
                self._notices = [n for n in self._notices if n.code not in REASONING_NOTICES]
                repaired = repaired_tools(conversation) if _repairs(conversation.tools) else {}
                body = passthrough_body(
                    conversation, self._target, max_tokens, repaired, stream=stream
                )
                if body:
                    return Rendered(body, tuple(self._notices))
                rendered = passthrough_fields(conversation, max_tokens, repaired)
                own = {Notice(NoticeCode.FIELD_DROPPED, name) for name in CLIENTS_OWN}
                self._notices += [notice for notice in conversation.notices if notice in own]
            else:
                rendered = self._messages_and_tools(messages) | self._other_fields(max_tokens)
        else:
            rendered = (
                self._messages_and_tools(messages) | self._sampling(max_tokens) | self._reasoning()
            )
            self._drop_server_tools()
            self._notices += conversation.notices
        fields = {"model": self._target.model or conversation.model, **rendered, "stream": stream}
        fields |= self._target.fields
        if stream:
            fields["stream_options"] = {"include_usage": True}
        return Rendered(encode(fields), tuple(self._notices), self._aliases)

    def _messages_and_tools(self, messages: list[dict[str, object]]) -> dict[str, object]:
        """Render the messages, starting with the system prompt, and the tools."""
        return {"messages": render_system(self._conversation.system) + messages, **self._tools()}

    def _other_fields(self, max_tokens: int | None) -> dict[str, object]:
        """Keep the fields of the client other than messages and tools."""
        conversation = self._conversation
        self._drop_server_tools()
        kept = {Notice(NoticeCode.FIELD_DROPPED, name) for name in conversation.source}
        self._notices += [notice for notice in conversation.notices if notice not in kept]
        fields = passthrough_fields(conversation, max_tokens, {})
        return {name: value for name, value in fields.items() if name not in _RENDERED_FIELDS}

    def _drop(self, code: NoticeCode, *details: str) -> None:
        self._notices += [Notice(code, detail) for detail in details]

    def _drop_server_tools(self) -> None:
        tools = declared_server_tools(self._conversation)
        self._notices += leave_out_server_tools(self._conversation, tools)

    def _tools(self) -> dict[str, object]:
        conversation = self._conversation
        choice = conversation.tool_choice
        if not conversation.tools:
            return {}
        fields: dict[str, object] = {"tools": _rendered_tools(conversation.tools)}
        if choice.mode == "tool":
            function = {"name": short_name(choice.name or "")}
            fields["tool_choice"] = {"type": "function", "function": function}
        elif choice.mode != "auto":
            fields["tool_choice"] = _CHOICES[choice.mode]
        if not choice.parallel:
            fields["parallel_tool_calls"] = False
        return fields

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
            "user": short_user_id(sampling.user),
            "response_format": schema,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def _reasoning(self) -> dict[str, object]:
        """Ask for reasoning as the client did. An effort alone does not switch it on."""
        mode = self._conversation.reasoning
        if hides_thinking(self._conversation, self._target):
            mode = ReasoningMode(enabled=True, effort="low")  # rejected if switched off
        match self._target.reasoning_request:
            case "openrouter" if mode.enabled is not None:
                return {"reasoning": _openrouter_reasoning(mode)}
            case "effort" if mode.enabled and (effort := mode.effort or _effort(mode.budget)):
                return {"reasoning_effort": effort}
        if mode != ReasoningMode():
            name = "output_config.effort" if mode.enabled is None else "thinking"
            self._drop(NoticeCode.FIELD_DROPPED, name)
        return {}


def _openrouter_reasoning(mode: ReasoningMode) -> dict[str, object]:
    if mode.enabled and mode.effort:
        return {"effort": mode.effort}
    if mode.enabled and mode.budget:
        return {"max_tokens": mode.budget}
    return {"enabled": mode.enabled}


def _effort(budget: int | None) -> str | None:
    """Return the effort for a budget of thinking tokens."""
    if budget is None:
        return None
    return next((effort for most, effort in _EFFORTS if budget <= most), "high")


@cached_by_tools
def _repairs(tools: tuple[Tool, ...]) -> tuple[Notice, ...]:
    return repair_notices(tools, with_properties)


@cached_by_tools
def _rendered_tools(tools: tuple[Tool, ...]) -> Raw:
    return Raw(encode([{"type": "function", "function": _function(tool)} for tool in tools]))


def _function(tool: Tool) -> dict[str, object]:
    function: dict[str, object] = {"name": short_name(tool.name)}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = Raw(with_properties(tool))
    if tool.strict is not None:
        function["strict"] = tool.strict
    return function
