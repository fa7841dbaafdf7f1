"""What can be asked of an upstream: whether it works, and which models it has."""

from django.contrib import messages
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.utils.http import urlencode

from formats import detect_format
from proxy import models
from proxy.configuration.snapshot import load
from proxy.configuration.upstream import Upstream, read_upstream
from proxy.pages.access import page, shown, user_of
from proxy.serving.upstream_test import Trouble, models_of, probe

_MOST_CHARS = 200
_PAUSE = 2  # seconds between two tests of one person: each is a request that somebody pays
_LIST_SECONDS = 60
_MOST_SHOWN = 500


@page("change_upstream", methods=("GET", "POST"))
def test_upstream(request: HttpRequest, pk: int) -> HttpResponse:
    """Every step to a streamed tool call, tried now."""
    row = get_object_or_404(models.Upstream, pk=pk)
    model = request.POST.get("model", "").replace("\0", "").strip()[:_MOST_CHARS]
    steps = None
    if request.method == "POST":
        if not cache.add(f"probe-{user_of(request).pk}", True, _PAUSE):
            messages.warning(
                request, f"A moment, please: {_PAUSE} seconds must lie between two tests."
            )
        elif upstream := _read(request, row):
            steps = [*probe(upstream, load(), model=model)]
    names = row.routes.exclude(upstream_model="").values_list("upstream_model", flat=True)
    return shown(
        request,
        "configuration/upstream_test.html",
        f"Test {row.name}",
        row=row,
        steps=steps,
        is_well=steps is not None and all(step.state == "ok" for step in steps),
        model=model or next(iter(names), ""),
        names=[*names],
    )


@page("view_upstream", "add_modelroute")
def upstream_models(request: HttpRequest, pk: int) -> HttpResponse:
    """The models that an upstream has, to make routes of; as JSON for a form that asks so."""
    row = get_object_or_404(models.Upstream, pk=pk)
    names: list[str] = []
    trouble, upstream = "", _read(request, row)
    if upstream is not None:
        try:
            names = _listed(row, upstream)
        except Trouble as error:
            trouble = str(error)
    if request.headers.get("accept") == "application/json":
        return JsonResponse({"models": names, "trouble": trouble})
    wanted = request.GET.get("q", "").strip()
    found = [name for name in names if wanted.lower() in name.lower()]
    return shown(
        request,
        "configuration/upstream_models.html",
        f"Models of {row.name}",
        row=row,
        trouble=trouble,
        wanted=wanted,
        total=len(names),
        count=len(found),
        found=[
            (name, detect_format(name).format, _route_query(row, name))
            for name in found[:_MOST_SHOWN]
        ],
    )


def _listed(row: models.Upstream, upstream: Upstream) -> list[str]:
    """The list, remembered for a minute: people search it, and forms ask for it while they type."""
    remembered = f"models-{row.pk}-{row.base_url}"
    names: list[str] | None = cache.get(remembered)
    if names is None:
        names = models_of(upstream)
        cache.set(remembered, names, _LIST_SECONDS)
    return names


def _read(request: HttpRequest, row: models.Upstream) -> Upstream | None:
    """The upstream as requests see it; None, and a message, if its row cannot be understood."""
    try:
        return read_upstream(row)
    except ValidationError as error:
        messages.error(request, f"Its settings cannot be understood: {' '.join(error.messages)}")
        return None


def _route_query(row: models.Upstream, name: str) -> str:
    return urlencode({"upstream": str(row.pk), "upstream_model": name, "pattern": name})
