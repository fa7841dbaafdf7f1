"""Registry of dialects and native formats; detects a model's format and builds pipelines.

A new dialect or format is one entry in the tables at the bottom. Overrides are passed in by the
caller.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache, partial
from typing import Literal, NamedTuple, Protocol, TypeAlias

import formats.anthropic.decoder
import formats.anthropic.encoder
import formats.anthropic.request_parser
import formats.anthropic.request_renderer
import formats.openai.decoder
import formats.openai.encoder
import formats.openai.request_parser
import formats.openai.request_renderer
import formats.openai.usage_filter
from formats.complexity import Parse
from formats.conversation import Conversation, Rendered, Target
from formats.delivery import Delivery, Identity
from formats.errors import DEFAULT_LIMITS, Limits
from formats.hidden_thinking import HiddenThinking
from formats.native.auto import every_family
from formats.native.definition import Document, native_formats, read_definition
from formats.native.families.cohere import COHERE
from formats.native.families.deepseek import DEEPSEEK
from formats.native.families.ernie import ERNIE
from formats.native.families.gemma import GEMMA
from formats.native.families.glm import GLM
from formats.native.families.granite import GRANITE
from formats.native.families.harmony import HARMONY
from formats.native.families.hunyuan import HUNYUAN
from formats.native.families.internlm import INTERNLM
from formats.native.families.jamba import JAMBA
from formats.native.families.kimi import KIMI
from formats.native.families.lfm import LFM
from formats.native.families.llama import LLAMA
from formats.native.families.longcat import LONGCAT
from formats.native.families.minimax import MINIMAX
from formats.native.families.mistral import MISTRAL
from formats.native.families.nemotron import NEMOTRON
from formats.native.families.phi import PHI
from formats.native.families.qwen import QWEN
from formats.native.families.seed import SEED
from formats.native.families.step import STEP
from formats.native.format import NativeFormat, SplitThinking
from formats.native.markup_watch import MarkupWatch
from formats.native.rescue import CallRescue
from formats.passthrough import Passthrough, ResumableEncoder
from formats.pipeline import Decoder, Pipeline, Transform
from formats.reply import Reply, ReplyOptions
from formats.toolbox import Toolbox

STANDARD = "standard"
AUTO = "auto"
# More than any gateway has: compiling one takes up to 0.2 s, and requests must not wait for that.
_MAX_DEFINED = 512


class _Render(Protocol):
    def __call__(
        self, conversation: Conversation, target: Target, *, stream: bool = True
    ) -> Rendered: ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """An API dialect: parsers and renderers of requests, decoders and encoders of responses."""

    parse: Parse
    render: _Render
    decoder: Callable[[Limits], Decoder]
    encoder: Callable[[ReplyOptions], ResumableEncoder]
    encode_reply: Callable[[Reply, ReplyOptions], bytes]
    encode_error: Callable[..., bytes]
    ping: bytes
    """Keepalive event for a silent stream."""
    without_usage: Callable[[bytes], bytes] | None = None
    """Removes usage from upstream events, for a client that did not ask for it."""


Markers: TypeAlias = tuple[tuple[str, str], ...]
"""More spellings of a format's special tokens, as (role, spelling)."""


class Detection(NamedTuple):
    format: str
    reason: Literal["override", "definition", "detection", "default"]


class Override(NamedTuple):
    """A pattern of model ids (`*` matches anything, case is ignored) and their format."""

    pattern: str
    format: str


def detect_format(model: str, overrides: Iterable[Override] = ()) -> Detection:
    """Detect the native format of a model: by override, then by vendor, then by its name."""
    name = model.lower()
    for override in overrides:
        if fnmatchcase(name, override.pattern.lower()):
            return Detection(override.format, "override")
    vendor, slash, _ = name.rpartition("/")
    if slash and (known := _VENDORS.get(vendor.rpartition("/")[2])):
        return Detection(known, "detection")
    for word, format_name in _WORDS:
        if word.search(name):
            return Detection(format_name, "detection")
    return Detection(STANDARD, "default")


def answers_structured(model: str) -> bool:
    """Return whether a model's name tells that it answers with structured calls only."""
    name = model.lower()
    if detect_format(name).format != STANDARD:  # openai/gpt-oss
        return False
    vendor, _, own = name.rpartition("/")
    if vendor.rpartition("/")[2].lstrip("~") in _STRUCTURED_VENDORS:
        return True
    return _STRUCTURED_NAMES.match(own) is not None


@cache
def format_with_settings(
    format_name: str, markers: Markers = (), split_thinking: SplitThinking | None = None
) -> NativeFormat | None:
    """Return a format that also reads these spellings; raises ValueError for an invalid one.

    `split_thinking` None is the format's own choice. The standard format can split thinking, too.
    """
    native = FORMATS[format_name]
    if native is not None:
        return _with_settings(native, markers, split_thinking)
    if markers:
        raise ValueError(f"the format {format_name} has no markers")
    if split_thinking is None or split_thinking is SplitThinking.NEVER:
        return None
    return NativeFormat([]).with_split_thinking(split_thinking)


@lru_cache(maxsize=_MAX_DEFINED)
def defined_format(
    definition: str, markers: Markers = (), split_thinking: SplitThinking | None = None
) -> NativeFormat:
    """Return the format of a Definition's text, with settings as of a built-in format.

    Raises DefinitionError, or ValueError for an invalid spelling.
    """
    native = read_definition(json.loads(definition)).native
    return _with_settings(native, markers, split_thinking)


def _with_settings(
    native: NativeFormat, markers: Markers, split_thinking: SplitThinking | None
) -> NativeFormat:
    if markers:
        native = native.with_spellings(markers)
    return native if split_thinking is None else native.with_split_thinking(split_thinking)


def build_pipeline(
    *,
    client: str,
    upstream: str,
    format_name: str,
    identity: Identity,
    toolbox: Toolbox | None = None,
    max_calls: int | None = None,
    options: ReplyOptions | None = None,
    limits: Limits = DEFAULT_LIMITS,
    strict: bool = False,
    markers: Markers = (),
    split_thinking: str | None = None,
    definition: str | None = None,
    hides_thinking: bool = False,
    max_tokens: int | None = None,
) -> Pipeline:
    """Build the pipeline from the bytes of an upstream's answer to the bytes for a client.

    `split_thinking` is a value of SplitThinking, or None for the format's own choice. `definition`
    is the text of a Definition, which is read instead of a built-in format; `format_name` is its
    name. `max_tokens` is the client's limit, which the pipeline enforces if it hides thinking.
    """
    tools = toolbox or Toolbox()
    split = None if split_thinking is None else SplitThinking(split_thinking)
    if definition is None:
        native = format_with_settings(format_name, markers, split)
    else:
        native = defined_format(definition, markers, split)
    is_same = client == upstream
    decoder = DIALECTS[upstream].decoder(limits)
    reader = CallRescue(native, tools, limits, strict=strict) if native else None
    # A call that a family's own format leaves in the text is quoted, or a draft.
    watched = None if format_name in BUILT_IN_DEFINITIONS else tools
    transform: Transform = MarkupWatch(reader, format_name, watched)
    if hides_thinking:
        transform = HiddenThinking(transform, max_tokens)
    if identity.prefers_upstream != is_same:
        identity = replace(identity, prefers_upstream=is_same)
    delivery = Delivery(identity, tools, max_calls=max_calls)
    reply_options = options or ReplyOptions()
    if not is_same:
        return Pipeline(decoder, transform, delivery, DIALECTS[client].encoder(reply_options))
    encoder = partial(DIALECTS[client].encoder, reply_options)
    trim = None if reply_options.include_usage else DIALECTS[client].without_usage
    probe = partial(DIALECTS[upstream].decoder, limits)
    passthrough = Passthrough(decoder, probe, encoder, limits, trim=trim)
    return Pipeline(decoder, transform, delivery, passthrough)


DIALECTS: dict[str, Dialect] = {
    "anthropic": Dialect(
        parse=formats.anthropic.request_parser.parse,
        render=formats.anthropic.request_renderer.render,
        decoder=formats.anthropic.decoder.AnthropicDecoder,
        encoder=formats.anthropic.encoder.AnthropicEncoder,
        encode_reply=formats.anthropic.encoder.encode_reply,
        encode_error=formats.anthropic.encoder.encode_error,
        ping=formats.anthropic.encoder.PING,
    ),
    "openai": Dialect(
        parse=formats.openai.request_parser.parse,
        render=formats.openai.request_renderer.render,
        decoder=formats.openai.decoder.OpenAIDecoder,
        encoder=formats.openai.encoder.OpenAIEncoder,
        encode_reply=formats.openai.encoder.encode_reply,
        encode_error=formats.openai.encoder.encode_error,
        ping=formats.openai.encoder.PING,
        without_usage=formats.openai.usage_filter.without_usage,
    ),
}

BUILT_IN_DEFINITIONS: Mapping[str, Document] = {
    "cohere": COHERE,
    "deepseek": DEEPSEEK,
    "ernie": ERNIE,
    "gemma": GEMMA,
    "glm": GLM,
    "granite": GRANITE,
    "harmony": HARMONY,
    "hunyuan": HUNYUAN,
    "internlm": INTERNLM,
    "jamba": JAMBA,
    "kimi": KIMI,
    "lfm": LFM,
    "llama": LLAMA,
    "longcat": LONGCAT,
    "minimax": MINIMAX,
    "mistral": MISTRAL,
    "nemotron": NEMOTRON,
    "phi": PHI,
    "qwen": QWEN,
    "seed": SEED,
    "step": STEP,
}
"""The built-in formats in the form in which an operator defines one. Their patterns are close to
the detection, which also knows vendors and whole words."""

FORMATS: dict[str, NativeFormat | None] = {
    STANDARD: None,
    **native_formats(BUILT_IN_DEFINITIONS),
}
FORMATS[AUTO] = every_family(FORMATS)

_VENDORS = {
    "ai21": "jamba",
    "ai21labs": "jamba",
    "cohere": "cohere",
    "cohereforai": "cohere",
    "coherelabs": "cohere",
    "deepseek": "deepseek",
    "ibm-granite": "granite",
    "internlm": "internlm",
    "liquid": "lfm",
    "liquidai": "lfm",
    "meta-llama": "llama",
    "minimax": "minimax",
    "minimaxai": "minimax",
    "mistral": "mistral",
    "mistralai": "mistral",
    "moonshot": "kimi",
    "moonshotai": "kimi",
    "qwen": "qwen",
    "stepfun": "step",
    "stepfun-ai": "step",
    "thudm": "glm",
    "xiaomi": "qwen",
    "xiaomimimo": "qwen",
    "z-ai": "glm",
    "zai": "glm",
    "zai-org": "glm",
    "zhipuai": "glm",
}

_STRUCTURED_VENDORS = frozenset({"anthropic", "openai", "x-ai", "xai"})
# At the beginning, or after regions and vendors with points, as in `eu.anthropic.claude-sonnet-4`:
# other vendors' models name the one whose answers they were trained on, too.
_STRUCTURED_NAMES = re.compile(
    r"(?:[a-z0-9-]+\.)*(?:claude|chatgpt|gemini|grok|gpt-\d|o[134](?![a-z0-9]))"
)

# In order of precedence. `k2` must be a whole word: `bk200` is not a Kimi model.
_WORDS = (
    (re.compile(r"kimi|(?<![a-z0-9])k2(?:p\d+)?(?![a-z0-9])"), "kimi"),
    (re.compile("qwen"), "qwen"),
    (re.compile("deepseek"), "deepseek"),
    (re.compile("(?<![a-z])(?:chat)?glm(?![a-z])"), "glm"),
    # Gemma 4 on, but not a number of parameters: `gemma-7b` is of the first generation.
    (re.compile(r"functiongemma|(?<![a-z])gemma-?[4-9](?![0-9]|\.?[0-9]*b)"), "gemma"),
    (re.compile(r"(?<![a-z])(?:cohere|command-?(?:r|a|r7b|r-plus))(?![a-z0-9])"), "cohere"),
    (re.compile(r"gpt-?oss|(?<![a-z])harmony(?![a-z])"), "harmony"),
    (re.compile("minimax"), "minimax"),
    (re.compile(r"(?<![a-z])seed-?oss(?![a-z])"), "seed"),
    (re.compile(r"(?<![a-z-])step-?\d"), "step"),
    (re.compile(r"(?<![a-z])mimo(?![a-z])"), "qwen"),
    (re.compile("hermes"), "qwen"),  # before the models that it is made from
    (re.compile("(?:mis|mix|minis|codes|devs|magis|pix|vox)tral"), "mistral"),
    (re.compile("nemotron"), "nemotron"),  # before the models that it is made from
    (re.compile(r"(?<![a-z])ernie"), "ernie"),
    (re.compile(r"(?<![a-z])granite"), "granite"),
    (re.compile(r"hunyuan|(?<![a-z])hy-?3(?!\d)"), "hunyuan"),
    (re.compile(r"internlm|intern-s\d"), "internlm"),
    (re.compile(r"(?<![a-z])jamba"), "jamba"),
    (re.compile("longcat"), "longcat"),
    (re.compile(r"(?<![a-z0-9])phi-?\d"), "phi"),
    (re.compile(r"(?<![a-z])llama[-_ ]?v?[34](?![0-9])"), "llama"),
    (re.compile(r"(?<![a-z])lfm-?\d"), "lfm"),
)
