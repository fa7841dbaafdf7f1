"""The turn cache: a request means the same whether its fields are cached or parsed."""

import json
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.bodies import body as claude_code_body
from formats import DIALECTS, ClientError, Conversation, Target
from formats.anthropic import request_parser as anthropic
from formats.complexity import DEFAULT_COMPLEXITY, Complexity
from formats.openai import request_parser as openai
from formats.request_errors import read_fields
from formats.turn_cache import RequestSettings, TurnCache

LIMITS = DEFAULT_COMPLEXITY
SETTINGS = RequestSettings(Conversation("m", ()), later_notices=())
SYSTEM = [
    {"type": "text", "text": "Be brief. " * 1000, "cache_control": {"type": "ephemeral"}},
    {"type": "image", "source": {"type": "url", "url": "https://host/a.png"}},
]
FIELDS = {
    "unheard_of": {"a": 1},
    "input": "hi",  # the messages of the Responses API, if there are no others
    "response_format": {"type": "json_object"},
    "system": SYSTEM,
    "tools": [{"name": "t", "input_schema": {}, "beta": True}],
    "metadata": {"user_id": "u" * 300},
}
MESSAGES = [
    [{"role": "user", "content": "hi"}],
    [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {}}]}],
    [{"role": "user", "content": [{"type": "text", "text": "hi", "citations": None}]}],
    [{"role": "user", "content": "hi", "id": 7}],
    [{"role": "user", "content": [{"type": "server_tool_use", "id": 1}]}],
    [{"role": "user", "content": [{"type": "tool_use", "id": "a", "name": "t"}]}],
    [{"role": "model", "content": "hi"}],
    [{"role": "user"}],
    [],
    {},
    "hi",
    None,
]


def request_of(messages: bytes, /, **changes: object) -> bytes:
    fields = [(name, json.dumps(value)) for name, value in (FIELDS | changes).items()]
    middle = [("messages", "%"), ("max_tokens", "8")]
    text = ",".join(f'"{name}":{value}' for name, value in [("model", '"m"'), *middle, *fields])
    return f"{{{text}}}".encode().replace(b"%", messages, 1)


def outcome(parse, body, limits=LIMITS):
    """Everything parsed from a request, or the error."""
    try:
        conversation = parse(body, limits)
    except ClientError as error:
        return str(error), error.path
    rendered = DIALECTS["openai"].render(conversation, Target())
    return conversation, list(conversation.source), rendered.body, rendered.notices


@pytest.fixture(scope="module", params=[anthropic, openai], ids=["anthropic", "openai"])
def request_module(request):
    """A request parser whose cache has FIELDS, and keeps nothing else."""
    module = request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_turns", TurnCache())
        for _ in range(2):
            module.parse(request_of(b'[{"role":"user","content":"first"}]'))
        patch.setattr(module._turns, "store", lambda *_: None)
        yield module


def check(module, body, limits=LIMITS):
    """Parses a cached request with and without the cache."""
    assert module._turns.lookup(body, LIMITS) is not None
    assert outcome(module.parse, body, limits) == outcome(module._parse_whole, body, limits)


def test_a_request_is_kept_from_the_second_time_on():
    cache = TurnCache()
    body = claude_code_body("B", stream=True)
    for times in range(3):
        entry = cache.lookup(body, LIMITS)
        assert (entry is not None) is (times == 2)
        cache.store(body, read_fields(body), LIMITS, SETTINGS)
    assert entry is not None
    assert entry.settings.conversation == SETTINGS.conversation
    assert entry.fields == read_fields(body)
    assert list(entry.fields) == list(read_fields(body))
    assert cache.lookup(body, Complexity(depth=9)) is None


def test_the_next_turn_of_claude_code_is_found():
    cache = TurnCache()
    body = claude_code_body("B", stream=True)
    longer = body.replace(b'],"tools":', b',{"role":"assistant","content":"ok"}],"tools":')
    assert longer != body
    for _ in range(2):
        cache.store(body, read_fields(body), LIMITS, SETTINGS)
    entry = cache.lookup(longer, LIMITS)
    assert entry is not None
    assert entry.fields == read_fields(longer)


@pytest.mark.parametrize("messages", MESSAGES, ids=json.dumps)
def test_a_cached_request_means_the_same_as_a_parsed_one(request_module, messages):
    check(request_module, request_of(json.dumps(messages).encode()))


@given(
    text=st.binary(max_size=40)
    | st.sampled_from([b"[]]", b'[],"tools":[]', b'[{"role":"user","content":"\xff"}]', b"[" * 999])
)
@example(b"")
def test_malformed_messages_are_refused_with_the_same_error(request_module, text):
    check(request_module, request_of(text))
    check(request_module, request_of(b'[{"role":"user","content":"' + text + b'"}]'))


@pytest.mark.parametrize(
    "limits", [Complexity(depth=5), Complexity(depth=12), Complexity(nodes=3000)]
)
def test_a_cached_request_has_the_same_complexity_limits(request_module, limits):
    # Cached for these limits, too: they allow the fields, but not these messages.
    deep = b"[" * 20 + b"]" * 20
    call = b'{"type":"tool_use","id":"a","name":"t","input":{"a":' + deep + b"}}"
    with pytest.MonkeyPatch.context() as patch:
        known = dict(request_module._turns._entries)
        known |= {(end, limits): value for (end, _), value in known.items()}
        patch.setattr(request_module._turns, "_entries", known)
        for content in (deep, call, b",".join([call] * 2000)):
            body = request_of(b'[{"role":"assistant","content":[' + content + b"]}]")
            assert request_module._turns.lookup(body, limits) is not None
            check(request_module, body, limits)


def test_white_space_around_messages_is_ignored(request_module):
    body = request_of(b' \n[{"role":"user","content":"hi"}]\t')
    assert request_module._turns.lookup(body, LIMITS).fields == read_fields(body)
    check(request_module, body)


def test_a_request_without_messages_does_not_affect_later_ones(monkeypatch):
    monkeypatch.setattr(openai, "_turns", TurnCache())
    for _ in range(3):
        openai.parse(request_of(b"null"))
    body = request_of(b'[{"role":"user","content":"hi"}]')
    assert outcome(openai.parse, body) == outcome(openai._parse_whole, body)


def test_a_different_byte_outside_the_messages_is_noticed():
    cache = TurnCache()
    body = request_of(b"[]")
    for _ in range(2):
        cache.store(body, read_fields(body), LIMITS, SETTINGS)
    start = body.index(b"[]", body.index(b'"messages"'))
    assert cache.lookup(body, LIMITS) is not None
    for at in (*range(start), *range(start + 2, len(body), 61), len(body) - 1):
        assert cache.lookup(body[:at] + b"\0" + body[at + 1 :], LIMITS) is None
    assert cache.lookup(body[:start] + body[start + 2 :], LIMITS) is not None
    assert cache.lookup(body[: start - 1] + body[start + 2 :], LIMITS) is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[]}',
        request_of(b"[]", system="s" * 500_000),
        request_of(b"[]", messages=[]),  # ambiguous
        request_of(b"[]").replace(b'"messages":[],', b""),
        b'{"system":"%b","messages":[]}' % (b"s" * 9000),  # ends in its messages
        request_of(b"[]", **{f"x{number}": 0 for number in range(60)}),
    ],
    ids=["small", "large", "twice", "none", "last", "fields"],
)
def test_requests_that_cannot_be_found_again_are_not_kept(body):
    cache = TurnCache()
    for _ in range(3):
        cache.store(body, read_fields(body), LIMITS, SETTINGS)
    assert cache.lookup(body, LIMITS) is None


def test_at_most_four_requests_with_the_same_end_are_kept():
    cache = TurnCache()
    bodies = [request_of(b"[]", unheard_of=number) for number in range(20)]
    for body in bodies:
        cache.store(body, read_fields(body), LIMITS, SETTINGS)
    assert [bool(cache.lookup(body, LIMITS)) for body in bodies] == [False] + [True] * 4 + [
        False
    ] * 15


def test_the_cache_is_bounded():
    cache = TurnCache()
    bodies = [request_of(b"[]", metadata=f"{number:0300}") for number in range(2000)]
    for body in bodies:
        for _ in range(2):
            cache.store(body, read_fields(body), LIMITS, SETTINGS)
    kept = [body for body in bodies if cache.lookup(body, LIMITS)]
    assert bodies[-1] in kept
    assert 300_000 < sum(map(len, kept)) < 6_000_000


def test_a_full_cache_is_cleared_for_the_next_request():
    cache = TurnCache()
    for number in range(200):
        body = request_of(b"[]", unheard_of=["s"] * 2000, metadata=f"{number:0300}")
        for _ in range(2):
            cache.store(body, read_fields(body), LIMITS, SETTINGS)
        assert cache.lookup(body, LIMITS), "kept, but not entry"
        values = sum(len(known) * 2000 for known in cache._entries.values())
        assert values < 16 * 1024 * 1024 / 100  # a value takes more memory than its text


def test_messages_are_not_kept():
    cache = TurnCache()
    body = request_of(b'["a secret"]')
    held = sys.getrefcount(body)
    for _ in range(2):
        cache.store(body, read_fields(body), LIMITS, SETTINGS)
    [[known]] = cache._entries.values()
    texts = (known.before, known.after, *map(bytes, known.fields.values()))
    assert not any(b"secret" in text for text in texts)
    assert sys.getrefcount(body) == held  # a field that is a view of the body would hold it
