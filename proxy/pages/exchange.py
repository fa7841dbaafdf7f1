"""Exchange page: facts, transcript columns, replays, and overrides from a replay or from `auto`."""

import json
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect

from formats import FORMATS
from proxy.audit.transcripts.codec import TranscriptContent, Unreadable
from proxy.configuration.editing import editing, save
from proxy.configuration.snapshot import load
from proxy.models import FAILURES, Exchange, Outcome, Replay, Transcript
from proxy.models.formats import format_names
from proxy.pages.access import has_permission, render_page, staff_page, staff_user
from proxy.pages.exchange_columns import client_pieces, columns_of, diff_answers
from proxy.security.visible_text import segments
from proxy.support.answer_parts import decode_answer, pieces_of
from proxy.support.curl import curl_command
from proxy.support.failure_text import explain_failure
from proxy.support.override_from_exchange import (
    override_from_reading,
    override_from_replay,
    would_fix,
)
from proxy.support.replay import NotReplayable, current_format, replay
from proxy.support.test_vector import make_vector

_MAX_REPLAYS = 20
_MAX_REQUEST_CHARS = 60_000
_FAILURE_NOT_KEPT = (
    "Possible reasons: content capture is off, the client turned capture off, the transcript was "
    "deleted by age, or enough transcripts of this failure were kept in that hour."
)


class ReplayForm(forms.Form):
    """Replay options; an empty field uses the current configuration."""

    format = forms.ChoiceField(
        required=False,
        choices=lambda: [
            ("", "current configuration"),
            *((name, name) for name in format_names()),
        ],
    )
    buffer_limit = forms.IntegerField(
        required=False, min_value=1024, max_value=64 * 1024 * 1024, label="buffer limit"
    )
    strict = forms.ChoiceField(
        required=False,
        choices=[("", "as configured"), ("yes", "strict"), ("no", "lenient")],
        label="strictness",
    )

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments for `proxy.support.replay.replay`."""
        strict = self.cleaned_data["strict"]
        return {
            "format_name": self.cleaned_data["format"] or None,
            "held_chars": self.cleaned_data["buffer_limit"],
            "strict": strict == "yes" if strict else None,
        }


@staff_page("view_exchange")
def exchange_page(request: HttpRequest, request_id: str) -> HttpResponse:
    exchange = get_object_or_404(
        Exchange.objects.select_related("key", "group"), request_id=request_id
    )
    transcript = Transcript.objects.filter(exchange=exchange).first()
    content, problem = _open(transcript)
    can_read = has_permission(request, "view_transcript")
    context: dict[str, Any] = {}
    if content is not None and can_read:
        context = {
            "columns": columns_of(exchange, content),
            "request_text": segments(_pretty(content.request), window=_MAX_REQUEST_CHARS),
            "headers": content.headers,
            "redactions": content.redactions,
            "curl": curl_command(exchange, content, request.build_absolute_uri("/")),
            "arrivals": content.arrivals,
        }
    replays = list(exchange.replays.select_related("author")[:_MAX_REPLAYS])
    selected = _selected_replay(request, replays)
    if selected is not None and content is not None and can_read:
        lines = diff_answers(
            client_pieces(exchange, content),
            pieces_of(decode_answer(bytes(selected.sent), exchange.dialect)),
        )
        context["diff"] = lines
        context["is_changed"] = any(line.kind != "same" for line in lines)
    # The override may be part of the configuration already; then there is none to offer.
    is_fix = selected is not None and would_fix(selected)
    format_now = current_format(exchange, load()) if is_fix or exchange.family_read else ""
    newer, older = _neighbours(exchange)
    return render_page(
        request,
        "audit/exchange.html",
        exchange.request_id,
        exchange=exchange,
        why=explain_failure(exchange),
        has_transcript=transcript is not None,
        problem=problem,
        has_answer=content is not None and bool(content.raw and content.reading),
        can_read=can_read,
        missing_reason=_missing_transcript_reason(exchange) if transcript is None else "",
        form=ReplayForm(initial={"format": exchange.leaked_format}),
        replays=replays,
        selected=selected,
        is_fix=is_fix,
        current_format=format_now,
        newer=newer,
        older=older,
        **context,
    )


@staff_page("view_exchange", "add_replay", methods=("POST",))
def replay_exchange(request: HttpRequest, request_id: str) -> HttpResponse:
    exchange = get_object_or_404(Exchange, request_id=request_id)
    form = ReplayForm(request.POST)
    if not form.is_valid():
        messages.error(request, "; ".join(f"{k}: {v[0]}" for k, v in form.errors.items()))
        return redirect(exchange)
    try:
        made = replay(exchange, **form.options(), author=staff_user(request))
    except NotReplayable as error:
        messages.error(request, f"This exchange cannot be replayed: {error}.")
        return redirect(exchange)
    made.save()
    return redirect(f"{exchange.get_absolute_url()}?replay={made.pk}#replay")


@staff_page("view_exchange", "add_formatoverride", methods=("POST",))
@editing()
def make_override(request: HttpRequest, request_id: str) -> HttpResponse:
    """Save as a format override what a replay tried; without a replay, the family `auto` read."""
    exchange = get_object_or_404(Exchange, request_id=request_id)
    number = request.POST.get("replay", "")
    tried = _replay_of(exchange, number)
    if tried is not None and would_fix(tried):
        row, page = override_from_replay(tried), f"?replay={tried.pk}#replay"
    elif not number and exchange.family_read in FORMATS:
        row, page = override_from_reading(exchange), ""
    else:
        messages.error(
            request,
            "Only a replay that fixed the exchange, or the family that auto read, can become an "
            "override.",
        )
        return redirect(exchange)
    is_new = row.pk is None
    if not is_new and not has_permission(request, "change_formatoverride"):
        messages.error(
            request, "An override for this model exists already, and your role cannot change it."
        )
        return redirect(exchange)
    try:
        save(row)
    except ValidationError as error:
        messages.error(request, f"The override is not valid: {'; '.join(error.messages)}")
        return redirect(exchange)
    LogEntry.objects.log_actions(
        staff_user(request).pk,
        [row],
        ADDITION if is_new else CHANGE,
        change_message=f"From exchange {exchange.request_id}.",
        single_object=True,
    )
    messages.success(
        request,
        f"Override saved: {row.pattern} is now read as {row.format}. No restart is needed.",
    )
    return redirect(f"{exchange.get_absolute_url()}{page}")


@staff_page("view_exchange", "view_transcript")
def fixture(request: HttpRequest, request_id: str) -> HttpResponse:
    """Download a test vector with the recorded events, or with those of the replay in `?replay`."""
    exchange = get_object_or_404(Exchange, request_id=request_id)
    content, _ = _open(get_object_or_404(Transcript, exchange=exchange))
    if content is None or not content.reading:
        raise Http404  # no answer was recorded
    tried = _replay_of(exchange, request.GET.get("replay", ""))
    options = {"format_name": tried.format, "events": tried.events} if tried else {}
    vector = make_vector(exchange, content, **options)
    # One line of ASCII, ready to append to a vector file.
    return HttpResponse(
        json.dumps(vector) + "\n",
        content_type="application/json",
        headers={"content-disposition": f'attachment; filename="{exchange.request_id}.jsonl"'},
    )


def _open(transcript: Transcript | None) -> tuple[TranscriptContent | None, str]:
    """Decode a transcript; return its content or None, and the reason if it is unreadable."""
    try:
        return transcript.content if transcript is not None else None, ""
    except Unreadable as error:
        return None, str(error)


def _selected_replay(request: HttpRequest, replays: list[Replay]) -> Replay | None:
    """Return the replay named by `?replay`, else the newest."""
    wanted = request.GET.get("replay", "")
    named = [made for made in replays if str(made.pk) == wanted]
    if wanted and not named:
        raise Http404
    return next(iter(named or replays), None)


def _replay_of(exchange: Exchange, number: str) -> Replay | None:
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        return None
    return exchange.replays.select_related("exchange").filter(pk=int(number)).first()


def _neighbours(exchange: Exchange) -> tuple[Exchange | None, Exchange | None]:
    """Return the next newer and older exchange of the same group or leaked format."""
    rows = Exchange.objects.only("request_id")
    if exchange.group_id:
        rows = rows.filter(group=exchange.group_id)
    elif exchange.leaked_format:
        rows = rows.filter(leaked_format=exchange.leaked_format)
    newer = rows.filter(id__gt=exchange.pk).order_by("id").first()
    return newer, rows.filter(id__lt=exchange.pk).order_by("-id").first()


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _missing_transcript_reason(exchange: Exchange) -> str:
    if exchange.key is not None and not exchange.key.capture_content:
        return "Content capture is off for this client key."
    if exchange.group_id or exchange.outcome in FAILURES or exchange.leaked_format:
        return _FAILURE_NOT_KEPT
    if exchange.outcome == Outcome.OK:
        return "It succeeded and was not sampled, or its transcript was deleted by age."
    return "It was not a failure of the gateway and was not sampled, or it was deleted by age."
