"""Playground: decode pasted model output and show what clients would receive. Stores nothing."""

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse

from proxy.configuration.routing import format_of_model
from proxy.configuration.snapshot import load
from proxy.models.formats import format_names
from proxy.pages.access import render_page, staff_page
from proxy.security.visible_text import segments
from proxy.support.answer_parts import (
    event_lines,
    join_pieces,
    locate_events,
    locate_failure,
    pieces_of,
)
from proxy.support.playground import (
    CHARACTERS,
    PIECES,
    RANDOM,
    WHOLE,
    BadPlaygroundInput,
    PlaygroundResult,
    run_playground,
)
from proxy.support.replay import leaked_markup

_MAX_CHARS = 1_000_000
_DETECT = ""


class PlaygroundForm(forms.Form):
    text = forms.CharField(
        label="model output",
        max_length=_MAX_CHARS,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 10, "spellcheck": "false"}),
        help_text="The text the model wrote, or a complete stream of server-sent events.",
    )
    format = forms.ChoiceField(
        required=False,
        choices=lambda: [
            (_DETECT, "detect from the model name"),
            *((n, n) for n in format_names()),
        ],
    )
    model = forms.CharField(required=False, max_length=200, label="model name")
    channel = forms.ChoiceField(
        required=False, choices=[("content", "answer"), ("reasoning", "reasoning")]
    )
    tools = forms.CharField(
        required=False,
        max_length=_MAX_CHARS,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        help_text='JSON, e.g. [{"name": "get_tide", "input_schema": {"type": "object"}}]',
    )
    chunking = forms.ChoiceField(
        required=False,
        choices=[
            (WHOLE, "one piece"),
            (CHARACTERS, "character by character"),
            (PIECES, "pieces of n characters"),
            (RANDOM, "random pieces of about n characters"),
        ],
    )
    size = forms.IntegerField(
        required=False, min_value=1, max_value=10_000, label="n (characters)", initial=8
    )
    seed = forms.IntegerField(required=False, min_value=0, max_value=2**31, initial=1)


@staff_page("add_replay", methods=("GET", "HEAD", "POST"))
def playground(request: HttpRequest) -> HttpResponse:
    form = PlaygroundForm(request.POST if request.method == "POST" else None)
    result: dict[str, Any] = {}
    if form.is_bound and form.is_valid():
        try:
            result = _play(form.cleaned_data)
        except BadPlaygroundInput as error:
            form.add_error(None, str(error))
    return render_page(request, "audit/playground.html", "Playground", form=form, **result)


def _play(entered: dict[str, Any]) -> dict[str, Any]:
    snapshot = load()
    name, reason = entered["format"], "chosen"
    if not name:
        detected = format_of_model(snapshot, entered["model"], requested=entered["model"])
        name, reason = detected.format, detected.reason
    # Browsers submit line breaks as CR LF; models write LF.
    text = entered["text"].replace("\r\n", "\n")
    definition = snapshot.definitions.get(name)
    played = run_playground(
        text,
        format_name=name,
        definition=definition.text if definition else None,
        channel=entered["channel"] or "content",
        tools=entered["tools"],
        chunking=entered["chunking"] or WHOLE,
        size=entered["size"] or 8,
        seed=entered["seed"] or 0,
    )
    return {"format": name, "reason": reason, "played": played, **columns_of(text, played)}


def columns_of(text: str, played: PlaygroundResult) -> dict[str, Any]:
    spans = locate_events(played.events, text)
    markup = leaked_markup(played.events)
    wrong = locate_failure(played.events, text, spans, leaked=bool(markup))
    return {
        "markup": markup,
        "text": segments(text, spans, wrong=wrong),
        "events": event_lines(played.events, spans),
        "anthropic": segments(played.anthropic),
        "openai": segments(played.openai),
        "is_empty": not join_pieces(pieces_of(played.events)),
    }
