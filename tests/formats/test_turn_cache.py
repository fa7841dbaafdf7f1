"""What stands in a request is read once, and a request means the same whether it is known or not."""

import json
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.bodies import body as claude_codes
from formats import DIALECTS, ClientError, Conversation, Target
from formats.anthropic import request_parser as anthropic
from formats.complexity import DEFAULT_COMPLEXITY, Complexity
from formats.openai import request_parser as openai
from formats.request_errors import read_fields
from formats.turn_cache import RequestSettings, TurnCache

MOST = DEFAULT_COMPLEXITY
REST = RequestSettings(Conversation("m", ()), behind=())
SYSTEM = [
    {"type": "text", "text": "Be brief. " * 1000, "cache_control": {"type": "ephemeral"}},
    {"type": "image", "source": {"type": "url", "url": "https://host/a.png"}},
]
STANDING = {
    "unheard_of": {"a": 1},
    "input": "hi",  # Responses' messages, where an OpenAI client sends no other
    "response_format": {"type": "json_object"},
    "system": SYSTEM,
    "tools": [{"name": "t", "input_schema": {}, "beta": True}],
    "metadata": {"user_id": "u" * 300},
}
SAID = [
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


def request_of(messages: bytes, /, **standing: object) -> bytes:
    fields = [(name, json.dumps(value)) for name, value in (STANDING | standing).items()]
    middle = [("messages", "%"), ("max_tokens", "8")]
    text = ",".join(f'"{name}":{value}' for name, value in [("model", '"m"'), *middle, *fields])
    return f"{{{text}}}".encode().replace(b"%", messages, 1)


def outcome(parse, body, most=MOST):
    """All that is known of a request, or why it is refused."""
    try:
        conversation = parse(body, most)
    except ClientError as error:
        return str(error), error.path
    rendered = DIALECTS["openai"].render(conversation, Target())
    source, unknown = list(conversation.source), conversation
    return unknown, source, rendered.body, rendered.notices


@pytest.fixture(scope="module", params=[anthropic, openai], ids=["anthropic", "openai"])
def request_module(request):
    """A dialect's, whose memory has the standing fields, and cannot learn others."""
    module = request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_turns", TurnCache())
        for _ in range(2):
            module.parse(request_of(b'[{"role":"user","content":"first"}]'))
        patch.setattr(module._turns, "store", lambda *_: None)
        yield module


def check(module, body, most=MOST):
    """A known request means what it means unknown."""
    assert module._turns.lookup(body, MOST) is not None
    assert outcome(module.parse, body, most) == outcome(module._parse_whole, body, most)


def test_only_what_comes_again_is_kept():
    standing = TurnCache()
    body = claude_codes("B", stream=True)
    for times in range(3):
        found = standing.lookup(body, MOST)
        assert (found is not None) is (times == 2)
        standing.store(body, read_fields(body), MOST, REST)
    assert found is not None
    assert found.rest.conversation == REST.conversation
    assert found.fields == read_fields(body)
    assert list(found.fields) == list(read_fields(body))
    assert standing.lookup(body, Complexity(depth=9)) is None


def test_the_next_turn_of_claude_code_is_known():
    standing = TurnCache()
    body = claude_codes("B", stream=True)
    longer = body.replace(b'],"tools":', b',{"role":"assistant","content":"ok"}],"tools":')
    assert longer != body
    for _ in range(2):
        standing.store(body, read_fields(body), MOST, REST)
    found = standing.lookup(longer, MOST)
    assert found is not None
    assert found.fields == read_fields(longer)


@pytest.mark.parametrize("messages", SAID, ids=json.dumps)
def test_a_known_request_means_what_it_means_unknown(request_module, messages):
    check(request_module, request_of(json.dumps(messages).encode()))


@given(
    text=st.binary(max_size=40)
    | st.sampled_from([b"[]]", b'[],"tools":[]', b'[{"role":"user","content":"\xff"}]', b"[" * 999])
)
@example(b"")
def test_messages_that_are_none_are_refused_as_ever(request_module, text):
    check(request_module, request_of(text))
    check(request_module, request_of(b'[{"role":"user","content":"' + text + b'"}]'))


@pytest.mark.parametrize(
    "most", [Complexity(depth=5), Complexity(depth=12), Complexity(nodes=3000)]
)
def test_what_is_known_is_bounded_like_any_other(request_module, most):
    # Known for these bounds, too: they allow what stands, if not this.
    deep = b"[" * 20 + b"]" * 20
    call = b'{"type":"tool_use","id":"a","name":"t","input":{"a":' + deep + b"}}"
    with pytest.MonkeyPatch.context() as patch:
        known = dict(request_module._turns._known)
        known |= {(end, most): value for (end, _), value in known.items()}
        patch.setattr(request_module._turns, "_known", known)
        for content in (deep, call, b",".join([call] * 2000)):
            body = request_of(b'[{"role":"assistant","content":[' + content + b"]}]")
            assert request_module._turns.lookup(body, most) is not None
            check(request_module, body, most)


def test_space_around_messages_is_no_part_of_them(request_module):
    body = request_of(b' \n[{"role":"user","content":"hi"}]\t')
    assert request_module._turns.lookup(body, MOST).fields == read_fields(body)
    check(request_module, body)


def test_what_was_asked_without_messages_says_nothing_of_them(monkeypatch):
    monkeypatch.setattr(openai, "_turns", TurnCache())
    for _ in range(3):
        openai.parse(request_of(b"null"))
    body = request_of(b'[{"role":"user","content":"hi"}]')
    assert outcome(openai.parse, body) == outcome(openai._parse_whole, body)


def test_a_byte_that_differs_outside_the_messages_is_seen():
    standing = TurnCache()
    body = request_of(b"[]")
    for _ in range(2):
        standing.store(body, read_fields(body), MOST, REST)
    start = body.index(b"[]", body.index(b'"messages"'))
    assert standing.lookup(body, MOST) is not None
    for at in (*range(start), *range(start + 2, len(body), 61), len(body) - 1):
        assert standing.lookup(body[:at] + b"\0" + body[at + 1 :], MOST) is None
    assert standing.lookup(body[:start] + body[start + 2 :], MOST) is not None
    assert standing.lookup(body[: start - 1] + body[start + 2 :], MOST) is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[]}',
        request_of(b"[]", system="s" * 500_000),
        request_of(b"[]", messages=[]),  # of which no one can say which is meant
        request_of(b"[]").replace(b'"messages":[],', b""),
        b'{"system":"%b","messages":[]}' % (b"s" * 9000),  # which ends as no other does
        request_of(b"[]", **{f"x{number}": 0 for number in range(60)}),
    ],
    ids=["small", "large", "twice", "none", "last", "fields"],
)
def test_what_cannot_be_known_again_is_not_kept(body):
    standing = TurnCache()
    for _ in range(3):
        standing.store(body, read_fields(body), MOST, REST)
    assert standing.lookup(body, MOST) is None


def test_of_requests_that_end_alike_a_few_are_kept():
    standing = TurnCache()
    bodies = [request_of(b"[]", unheard_of=number) for number in range(20)]
    for body in bodies:
        standing.store(body, read_fields(body), MOST, REST)
    assert [bool(standing.lookup(body, MOST)) for body in bodies] == [False] + [True] * 4 + [
        False
    ] * 15


def test_little_is_kept():
    standing = TurnCache()
    bodies = [request_of(b"[]", metadata=f"{number:0300}") for number in range(2000)]
    for body in bodies:
        for _ in range(2):
            standing.store(body, read_fields(body), MOST, REST)
    kept = [body for body in bodies if standing.lookup(body, MOST)]
    assert bodies[-1] in kept
    assert 300_000 < sum(map(len, kept)) < 6_000_000


def test_room_is_made_for_what_is_kept_next():
    standing = TurnCache()
    for number in range(200):
        body = request_of(b"[]", unheard_of=["s"] * 2000, metadata=f"{number:0300}")
        for _ in range(2):
            standing.store(body, read_fields(body), MOST, REST)
        assert standing.lookup(body, MOST), "it was kept where nobody looks"
        values = sum(len(known) * 2000 for known in standing._known.values())
        assert values < 16 * 1024 * 1024 / 100  # each takes more room than its text


def test_no_message_is_kept():
    standing = TurnCache()
    body = request_of(b'["a secret"]')
    held = sys.getrefcount(body)
    for _ in range(2):
        standing.store(body, read_fields(body), MOST, REST)
    [[known]] = standing._known.values()
    texts = (known.before, known.after, *map(bytes, known.fields.values()))
    assert not any(b"secret" in text for text in texts)
    assert sys.getrefcount(body) == held  # a field that is a view of the body would hold it
