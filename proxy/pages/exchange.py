"""One exchange: what was said on both sides, and what another reading makes of it."""

import json
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect

from formats import FORMATS
from proxy.audit.transcripts.codec import Said, Unreadable
from proxy.configuration.snapshot import load
from proxy.models import FAILURES, ConfigurationVersion, Exchange, Outcome, Replay, Transcript
from proxy.pages.access import may, page, shown, user_of
from proxy.pages.exchange_columns import client_pieces, columns_of, difference
from proxy.security.visible_text import segments
from proxy.support.answer_parts import decode_answer, pieces_of
from proxy.support.curl import curl_of
from proxy.support.failure_text import why
from proxy.support.override_from_replay import helps, override_for
from proxy.support.replay import NotReplayable, replay, today_format
from proxy.support.test_vector import fixture_of

_MOST_REPLAYS = 20
_REQUEST_WINDOW = 60_000
_NOT_KEPT = (
    "Content capture is switched off, the client asked for none, it was pruned, or enough "
    "transcripts of this failure were kept in that hour."
)


class ReplayForm(forms.Form):
    """How an answer is read again; what is left empty is as the configuration has it today."""

    format = forms.ChoiceField(
        required=False,
        choices=lambda: [
            ("", "today's configuration"),
            *((name, name) for name in sorted(FORMATS)),
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
        """What `proxy.support.replay.replay` takes."""
        strict = self.cleaned_data["strict"]
        return {
            "format_name": self.cleaned_data["format"] or None,
            "held_chars": self.cleaned_data["buffer_limit"],
            "strict": strict == "yes" if strict else None,
        }


@page("view_exchange")
def exchange_page(request: HttpRequest, request_id: str) -> HttpResponse:
    exchange = get_object_or_404(
        Exchange.objects.select_related("key", "group"), request_id=request_id
    )
    transcript = Transcript.objects.filter(exchange=exchange).first()
    said, trouble = _opened(transcript)
    is_reader = may(request, "view_transcript")
    content: dict[str, Any] = {}
    if said is not None and is_reader:
        content = {
            "columns": columns_of(exchange, said),
            "request_text": segments(_pretty(said.request), window=_REQUEST_WINDOW),
            "headers": said.headers,
            "redactions": said.redactions,
            "curl": curl_of(exchange, said, request.build_absolute_uri("/")),
            "arrivals": said.arrivals,
        }
    replays = list(exchange.replays.select_related("author")[:_MOST_REPLAYS])
    chosen = _chosen(request, replays)
    if chosen is not None and said is not None and is_reader:
        lines = difference(
            client_pieces(exchange, said),
            pieces_of(decode_answer(bytes(chosen.sent), exchange.dialect)),
        )
        content["difference"] = lines
        content["is_changed"] = any(line.kind != "same" for line in lines)
    # What helped may be the configuration by now.
    is_helped = chosen is not None and helps(chosen)
    today = today_format(exchange, load()) if is_helped else ""
    previous, following = _neighbours(exchange)
    return shown(
        request,
        "audit/exchange.html",
        exchange.request_id,
        exchange=exchange,
        why=why(exchange),
        has_transcript=transcript is not None,
        trouble=trouble,
        has_answer=said is not None and bool(said.raw and said.reading),
        is_reader=is_reader,
        absence=_absence(exchange) if transcript is None else "",
        form=ReplayForm(initial={"format": exchange.leaked_format}),
        replays=replays,
        chosen=chosen,
        is_helped=is_helped,
        today=today,
        previous=previous,
        following=following,
        **content,
    )


@page("view_exchange", "add_replay", methods=("POST",))
def replay_exchange(request: HttpRequest, request_id: str) -> HttpResponse:
    exchange = get_object_or_404(Exchange, request_id=request_id)
    form = ReplayForm(request.POST)
    if not form.is_valid():
        messages.error(request, "; ".join(f"{k}: {v[0]}" for k, v in form.errors.items()))
        return redirect(exchange)
    try:
        made = replay(exchange, **form.options(), author=user_of(request))
    except NotReplayable as error:
        messages.error(request, f"It cannot be replayed: {error}.")
        return redirect(exchange)
    made.save()
    return redirect(f"{exchange.get_absolute_url()}?replay={made.pk}#replay")


@page("view_exchange", "add_formatoverride", methods=("POST",))
@transaction.atomic
def make_override(request: HttpRequest, request_id: str) -> HttpResponse:
    """Make what a replay tried the configuration."""
    exchange = get_object_or_404(Exchange, request_id=request_id)
    tried = _replay_of(exchange, request.POST.get("replay", ""))
    if tried is None or not helps(tried):
        messages.error(request, "Only a replay that fixed the exchange can be made an override.")
        return redirect(exchange)
    ConfigurationVersion.lock()
    row = override_for(tried)
    is_new = row.pk is None
    if not is_new and not may(request, "change_formatoverride"):
        messages.error(request, "There is an override already, which you may not change.")
        return redirect(exchange)
    try:
        row.full_clean()
    except ValidationError as error:
        messages.error(request, f"The override is not valid: {'; '.join(error.messages)}")
        return redirect(exchange)
    row.save()
    LogEntry.objects.log_actions(
        user_of(request).pk,
        [row],
        ADDITION if is_new else CHANGE,
        change_message=f"From the exchange {exchange.request_id}.",
        single_object=True,
    )
    messages.success(
        request, f"From now on {row.pattern} is read as {row.format}; no restart is needed."
    )
    return redirect(f"{exchange.get_absolute_url()}?replay={tried.pk}#replay")


@page("view_exchange", "view_transcript")
def fixture(request: HttpRequest, request_id: str) -> HttpResponse:
    """A vector for the test suite: as it was understood, or as the replay of `?replay` has it."""
    exchange = get_object_or_404(Exchange, request_id=request_id)
    said, _ = _opened(get_object_or_404(Transcript, exchange=exchange))
    if said is None or not said.reading:
        raise Http404  # there was no answer to make one of
    tried = _replay_of(exchange, request.GET.get("replay", ""))
    options = {"format_name": tried.format, "events": tried.events} if tried else {}
    vector = fixture_of(exchange, said, **options)
    # In ASCII, on one line: it can be appended to a file of vectors as it is.
    return HttpResponse(
        json.dumps(vector) + "\n",
        content_type="application/json",
        headers={"content-disposition": f'attachment; filename="{exchange.request_id}.jsonl"'},
    )


def _opened(transcript: Transcript | None) -> tuple[Said | None, str]:
    """What a transcript has, if there is one; and why it cannot be read, if it cannot."""
    try:
        return transcript.said if transcript is not None else None, ""
    except Unreadable as error:
        return None, str(error)


def _chosen(request: HttpRequest, replays: list[Replay]) -> Replay | None:
    """The replay that the address names, else the newest."""
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
    """The newer and the older one of the same kind: group, leaked format, or none."""
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


def _absence(exchange: Exchange) -> str:
    """Why there is no transcript."""
    if exchange.key is not None and not exchange.key.capture_content:
        return "The client's key asks that no content be kept."
    if exchange.group_id:
        return _NOT_KEPT
    if exchange.outcome in FAILURES or exchange.leaked_format:
        return _NOT_KEPT
    if exchange.outcome == Outcome.OK:
        return "It went well and was not among the samples, or its transcript was pruned."
    return "It was not the gateway's failure and not among the samples, or it was pruned."
