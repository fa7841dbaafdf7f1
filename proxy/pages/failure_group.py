"""Failure group page: its exchanges, state, assignee and comments, and a replay of all of them."""

from collections import Counter

from django import forms
from django.contrib import messages
from django.contrib.auth import get_user_model
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect

from proxy.configuration.snapshot import load
from proxy.database.clock import clock
from proxy.models import Exchange, FailureGroup, GroupState, Replay
from proxy.pages.access import has_permission, render_page, staff_page, staff_user
from proxy.pages.audit_list import describe_groups
from proxy.pages.exchange import ReplayForm
from proxy.support.exchange_filters import BadFilter, filter_exchanges
from proxy.support.exchange_pages import get_page
from proxy.support.failure_text import explain_failure
from proxy.support.replay import NotReplayable, replay

_MAX_REPLAYS = 100
_ALWAYS_REPORTED = (
    Replay.Result.FIXED,
    Replay.Result.STILL_FAILING,
    Replay.Result.NEWLY_BROKEN,
)
_STATES = (GroupState.OPEN, GroupState.RESOLVED, GroupState.IGNORED)


def _assignee_choices() -> list[tuple[str, str]]:
    staff = get_user_model()._default_manager.filter(is_staff=True, is_active=True)
    names = staff.order_by("username").values_list("pk", "username")[:200]
    return [("", "unassigned"), *((str(pk), name) for pk, name in names)]


class TriageForm(forms.Form):
    state = forms.ChoiceField(choices=[(state.value, state.label) for state in _STATES])
    assignee = forms.ChoiceField(required=False, choices=_assignee_choices)


class CommentForm(forms.Form):
    text = forms.CharField(max_length=5000, widget=forms.Textarea(attrs={"rows": 3}))


@staff_page("view_exchange", "view_failuregroup")
def group_page(request: HttpRequest, pk: int) -> HttpResponse:
    groups = describe_groups(FailureGroup.objects.filter(pk=pk), clock.now())
    if not groups:
        get_object_or_404(FailureGroup, pk=pk)
    described = groups[0]
    group: FailureGroup = described["group"]
    query = {"group": str(pk), **{n: request.GET.get(n, "") for n in ("before", "after")}}
    try:
        result = get_page(filter_exchanges(query, clock.now()), query)
    except BadFilter as error:
        messages.error(request, str(error))
        result = get_page(Exchange.objects.filter(group=group), {})
    results = _newest_results(result.rows)
    shows_comments = has_permission(request, "view_comment")
    return render_page(
        request,
        "audit/group.html",
        described["sentence"],
        **described,
        rows=[(row, explain_failure(row), results.get(row.pk)) for row in result.rows],
        comments=group.comments.select_related("author") if shows_comments else [],
        triage=TriageForm(initial={"state": group.state, "assignee": group.assignee_id}),
        comment=CommentForm(),
        form=ReplayForm(),
        max_replays=_MAX_REPLAYS,
        older=f"?before={result.older}" if result.older else "",
        newer=f"?after={result.newer}" if result.newer else "",
    )


@staff_page("view_failuregroup", "change_failuregroup", methods=("POST",))
def triage_group(request: HttpRequest, pk: int) -> HttpResponse:
    group = get_object_or_404(FailureGroup, pk=pk)
    form = TriageForm(request.POST)
    if form.is_valid():
        group.state = form.cleaned_data["state"]
        group.assignee_id = form.cleaned_data["assignee"] or None
        group.save(update_fields=["state", "assignee"])
        messages.success(request, "State and assignee saved.")
    else:
        messages.error(
            request,
            "Not saved: choose a state from the list, and an active staff user as the assignee.",
        )
    return redirect(group)


@staff_page("view_failuregroup", "add_comment", methods=("POST",))
def comment_group(request: HttpRequest, pk: int) -> HttpResponse:
    group = get_object_or_404(FailureGroup, pk=pk)
    form = CommentForm(request.POST)
    if form.is_valid():
        group.comments.create(author=staff_user(request), text=form.cleaned_data["text"])
    else:
        messages.error(request, f"Comment not saved: {form.errors['text'][0]}")
    return redirect(f"{group.get_absolute_url()}#comments")


@staff_page("view_failuregroup", "add_replay", methods=("POST",))
def replay_group(request: HttpRequest, pk: int) -> HttpResponse:
    """Replay the group's newest exchanges that have a transcript."""
    group = get_object_or_404(FailureGroup, pk=pk)
    form = ReplayForm(request.POST)
    if not form.is_valid():
        messages.error(request, "; ".join(f"{k}: {v[0]}" for k, v in form.errors.items()))
        return redirect(group)
    with_transcript = group.exchanges.filter(transcript__isnull=False).order_by("-id")[
        :_MAX_REPLAYS
    ]
    snapshot, author = load(), staff_user(request)
    made: list[Replay] = []
    for exchange in with_transcript:
        try:
            made.append(replay(exchange, **form.options(), author=author, snapshot=snapshot))
        except NotReplayable:
            continue
    Replay.objects.bulk_create(made)
    counts = Counter(row.result for row in made)
    totals = [
        f"{counts[value]} {label}"
        for value, label in Replay.Result.choices
        if counts[value] or value in _ALWAYS_REPORTED
    ]
    messages.success(request, f"{len(made)} replayed: {', '.join(totals)}.")
    return redirect(group)


def _newest_results(rows: list[Exchange]) -> dict[int, Replay]:
    """Map exchange ids to their newest replay."""
    replays = Replay.objects.filter(exchange__in=rows).defer("events", "sent").order_by("id")
    return {made.exchange_id: made for made in replays}
