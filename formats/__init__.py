"""The translation core: bytes in, events out.

A pure library. It does no I/O, knows no clock and no chance, and imports nothing but the standard
library and msgspec. `proxy` imports from here only.
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
from formats.native.markup_watch import MarkupWatch
from formats.pipeline import Pipeline
from formats.registry import (
    DIALECTS,
    FORMATS,
    STANDARD,
    Detection,
    Dialect,
    Markers,
    Override,
    build_pipeline,
    detect_format,
    format_with_markers,
)
from formats.reply import Collector, Reply, ReplyOptions, collect
from formats.token_estimate import estimate_tokens
from formats.tool_cache import cached_by_tools
from formats.toolbox import Toolbox
from formats.upstream_errors import as_context_overflow, is_error_body, read_error_answer

__all__ = [
    "DIALECTS",
    "FORMATS",
    "STANDARD",
    "STATUS",
    "AnswerFault",
    "CallFault",
    "ClientError",
    "Collector",
    "Complexity",
    "Conversation",
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
    "ReasoningDelta",
    "ReasoningRedacted",
    "ReasoningSignature",
    "Rendered",
    "Reply",
    "ReplyOptions",
    "State",
    "StopReason",
    "Target",
    "TextDelta",
    "TooComplex",
    "Tool",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallFailed",
    "ToolCallStart",
    "Toolbox",
    "UpstreamError",
    "Usage",
    "as_context_overflow",
    "build_pipeline",
    "cached_by_tools",
    "collect",
    "detect_format",
    "estimate_tokens",
    "format_with_markers",
    "is_error_body",
    "kind_of_status",
    "merge_deltas",
    "next_state",
    "read_error_answer",
]
