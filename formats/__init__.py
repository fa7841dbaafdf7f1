"""The translation core: requests, responses and tool calls of every dialect and native format.

A pure library: no I/O, clock, randomness, logging or settings, and no imports except the
standard library and msgspec. Other packages import only the names listed here.

    registry                   tables of dialects and native formats; detects a model's format by
                               its name; builds pipelines
    pipeline                   one response: decoder → rescue of native calls → delivery → encoder
    passthrough                forwards upstream bytes unchanged while nothing has to change; writes
                               the end that a stream lacks
    delivery                   the answer's call ids, tool names, number of calls, stop reason; an
                               error or `max_tokens` after a truncated call; drops empty calls
    events, reply              the vocabulary of a streamed answer, and a whole answer
    conversation               a parsed request
    history                    tool results: matched with their calls, and ordered
    complexity                 limits on the depth and number of values of a request's JSON, which
                               must be UTF-8
    model_fields               fields by which a router behind the upstream may choose the model
    request_errors             messages for invalid requests, with the place in the JSON
    target_limits              fits a request to its upstream: tool names and their number,
                               max_tokens, user id, server tools that it cannot run
    tool_schema                schemas of tools as each kind of upstream accepts them
    hidden_thinking            hides thinking that the client switched off and the model cannot stop
    errors                     exceptions and limits; adds the request id to messages
    upstream_errors            error answers of an upstream; answers that are not UTF-8, not JSON or
                               not an answer
    arguments                  scans a call's JSON arguments as they arrive; repairs nothing
    null_arguments             drops nulls that the tool's schema does not allow
    toolbox, tool_cache        the tools of a request, and caches of values computed from them
    turn_cache                 fields that a session repeats with every request
    token_estimate             input tokens before the upstream has counted them, documents included
    image_tokens               input tokens of an image, by its size
    foreign_body               describes bodies of other kinds: web pages, plain text
    sse                        server-sent events; limits of a line and of an event
    json_codec                 JSON; half an emoji; numbers of tokens that are not numbers
    json_splice                replaces values in JSON, and keeps all other bytes
    media_sources              sources of images and documents
    anthropic, openai, native  the dialects, and calls written into text
"""

from formats.complexity import Complexity
from formats.conversation import Conversation, Rendered, Target, Tool
from formats.delivery import Identity
from formats.errors import (
    STATUS,
    AnswerFault,
    ClientError,
    EventOrderError,
    FailureKind,
    FormatsError,
    LimitExceeded,
    Limits,
    TooComplex,
    UpstreamError,
    kind_of_status,
)
from formats.events import (
    CallFault,
    Event,
    MessageEnd,
    MessageFailed,
    MessageStart,
    Notice,
    NoticeCode,
    ReasoningDelta,
    ReasoningRedacted,
    ReasoningSignature,
    State,
    StopReason,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallFailed,
    ToolCallStart,
    Usage,
    merge_deltas,
    next_state,
)
from formats.foreign_body import describe_body, is_foreign
from formats.model_fields import named_models, selects_model
from formats.native.definition import Definition, DefinitionError, read_definition
from formats.native.definition_check import Problem
from formats.native.format import SplitThinking
from formats.native.kinds import KINDS as GRAMMAR_KINDS
from formats.native.kinds import Choice, Texts
from formats.native.markup_watch import MarkupWatch
from formats.native.unknown_markup import UNKNOWN as UNKNOWN_MARKUP
from formats.pipeline import Pipeline
from formats.registry import (
    AUTO,
    BUILT_IN_DEFINITIONS,
    DIALECTS,
    FORMATS,
    STANDARD,
    Detection,
    Dialect,
    Markers,
    Override,
    answers_structured,
    build_pipeline,
    defined_format,
    detect_format,
    format_with_settings,
)
from formats.reply import Collector, Reply, ReplyOptions, collect
from formats.target_limits import hides_thinking
from formats.token_estimate import estimate_tokens
from formats.tool_cache import cached_by_tools
from formats.toolbox import Toolbox
from formats.upstream_errors import (
    as_context_overflow,
    is_error_body,
    read_error_answer,
    read_message,
    with_request_id,
    with_upstream_name,
)

__all__ = [
    "AUTO",
    "BUILT_IN_DEFINITIONS",
    "DIALECTS",
    "FORMATS",
    "GRAMMAR_KINDS",
    "STANDARD",
    "STATUS",
    "UNKNOWN_MARKUP",
    "AnswerFault",
    "CallFault",
    "Choice",
    "ClientError",
    "Collector",
    "Complexity",
    "Conversation",
    "Definition",
    "DefinitionError",
    "Detection",
    "Dialect",
    "Event",
    "EventOrderError",
    "FailureKind",
    "FormatsError",
    "Identity",
    "LimitExceeded",
    "Limits",
    "Markers",
    "MarkupWatch",
    "MessageEnd",
    "MessageFailed",
    "MessageStart",
    "Notice",
    "NoticeCode",
    "Override",
    "Pipeline",
    "Problem",
    "ReasoningDelta",
    "ReasoningRedacted",
    "ReasoningSignature",
    "Rendered",
    "Reply",
    "ReplyOptions",
    "SplitThinking",
    "State",
    "StopReason",
    "Target",
    "TextDelta",
    "Texts",
    "TooComplex",
    "Tool",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallFailed",
    "ToolCallStart",
    "Toolbox",
    "UpstreamError",
    "Usage",
    "answers_structured",
    "as_context_overflow",
    "build_pipeline",
    "cached_by_tools",
    "collect",
    "defined_format",
    "describe_body",
    "detect_format",
    "estimate_tokens",
    "format_with_settings",
    "hides_thinking",
    "is_error_body",
    "is_foreign",
    "kind_of_status",
    "merge_deltas",
    "named_models",
    "next_state",
    "read_definition",
    "read_error_answer",
    "read_message",
    "selects_model",
    "with_request_id",
    "with_upstream_name",
]
