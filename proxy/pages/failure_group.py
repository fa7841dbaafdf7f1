"""One kind of failure: its exchanges, who looks after it, and a replay of all of it."""

from collections import Counter

from django import forms
from django.contrib import messages
from django.contrib.auth import get_user_model
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect

from proxy.configuration.snapshot import load
from proxy.database.clock import clock
from proxy.models import Exchange, FailureGroup, GroupState, Replay
from proxy.pages.access import may, page, shown, user_of
from proxy.pages.audit_list import shown_groups
from proxy.pages.exchange import ReplayForm
from proxy.support.exchange_list import BadFilter, filtered, page_of
from proxy.support.failure_text import why
from proxy.support.replay import NotReplayable, replay

_AT_ONCE = 100
_STATES = (GroupState.OPEN, GroupState.RESOLVED, GroupState.IGNORED)


def _staff() -> list[tuple[str, str]]:
    staff = get_user_model()._default_manager.filter(is_staff=True, is_active=True)
    names = staff.order_by("username").values_list("pk", "username")[:200]
    return [("", "nobody"), *((str(pk), name) for pk, name in names)]


class CareForm(forms.Form):
    """Who looks after a group, and how far they are."""

    state = forms.ChoiceField(choices=[(state.value, state.label) for state in _STATES])
    assignee = forms.ChoiceField(required=False, choices=_staff)


class CommentForm(forms.Form):
    text = forms.CharField(max_length=5000, widget=forms.Textarea(attrs={"rows": 3}))


@page("view_exchange", "view_failuregroup")
def group_page(request: HttpRequest, pk: int) -> HttpResponse:
    groups = shown_groups(FailureGroup.objects.filter(pk=pk), clock.now())
    if not groups:
        get_object_or_404(FailureGroup, pk=pk)
    described = groups[0]
    group: FailureGroup = described["group"]
    query = {"group": str(pk), **{n: request.GET.get(n, "") for n in ("before", "after")}}
    try:
        listed = page_of(filtered(query, clock.now()), query)
    except BadFilter as error:
        messages.error(request, str(error))
        listed = page_of(Exchange.objects.filter(group=group), {})
    results = _newest_results(listed.rows)
    shows_comments = may(request, "view_comment")
    return shown(
        request,
        "audit/group.html",
        described["sentence"],
        **described,
        rows=[(row, why(row), results.get(row.pk)) for row in listed.rows],
        comments=group.comments.select_related("author") if shows_comments else [],
        care=CareForm(initial={"state": group.state, "assignee": group.assignee_id}),
        comment=CommentForm(),
        form=ReplayForm(),
        at_once=_AT_ONCE,
        older=f"?before={listed.older}" if listed.older else "",
        newer=f"?after={listed.newer}" if listed.newer else "",
    )


@page("view_failuregroup", "change_failuregroup", methods=("POST",))
def care_for_group(request: HttpRequest, pk: int) -> HttpResponse:
    group = get_object_or_404(FailureGroup, pk=pk)
    form = CareForm(request.POST)
    if form.is_valid():
        group.state = form.cleaned_data["state"]
        group.assignee_id = form.cleaned_data["assignee"] or None
        group.save(update_fields=["state", "assignee"])
        messages.success(request, "Saved.")
    else:
        messages.error(request, "That is no state, or nobody of the staff.")
    return redirect(group)


@page("view_failuregroup", "add_comment", methods=("POST",))
def comment_group(request: HttpRequest, pk: int) -> HttpResponse:
    group = get_object_or_404(FailureGroup, pk=pk)
    form = CommentForm(request.POST)
    if form.is_valid():
        group.comments.create(author=user_of(request), text=form.cleaned_data["text"])
    else:
        messages.error(request, f"The comment was not saved: {form.errors['text'][0]}")
    return redirect(f"{group.get_absolute_url()}#comments")


@page("view_failuregroup", "add_replay", methods=("POST",))
def replay_group(request: HttpRequest, pk: int) -> HttpResponse:
    """Replay the newest of the group's exchanges that have a transcript."""
    group = get_object_or_404(FailureGroup, pk=pk)
    form = ReplayForm(request.POST)
    if not form.is_valid():
        messages.error(request, "; ".join(f"{k}: {v[0]}" for k, v in form.errors.items()))
        return redirect(group)
    kept = group.exchanges.filter(transcript__isnull=False).order_by("-id")[:_AT_ONCE]
    snapshot, author = load(), user_of(request)
    made: list[Replay] = []
    for exchange in kept:
        try:
            made.append(replay(exchange, **form.options(), author=author, snapshot=snapshot))
        except NotReplayable:
            continue
    Replay.objects.bulk_create(made)
    counts = Counter(row.result for row in made)
    told = [
        f"{counts[value]} {label}"
        for value, label in Replay.Result.choices
        if _tells(counts, value)
    ]
    messages.success(request, f"{len(made)} replayed: {', '.join(told)}.")
    return redirect(group)


def _tells(counts: "Counter[str]", result: str) -> bool:
    """The three that matter are told even when there is none of them."""
    matters = (Replay.Result.FIXED, Replay.Result.STILL_FAILING, Replay.Result.NEWLY_BROKEN)
    return result in matters or counts[result] > 0


def _newest_results(rows: list[Exchange]) -> dict[int, Replay]:
    """The newest replay of each row."""
    replays = Replay.objects.filter(exchange__in=rows).defer("events", "sent").order_by("id")
    return {made.exchange_id: made for made in replays}
