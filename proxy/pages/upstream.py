"""Upstream pages: test the connection, list its models, let it answer for Claude's names."""

from hashlib import sha256
from time import monotonic, sleep

from django.contrib import messages
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.http import urlencode

from formats import detect_format
from proxy import models
from proxy.configuration.claude_names import serve_claude_names
from proxy.configuration.document.export import current_version
from proxy.configuration.editing import editing
from proxy.configuration.history import version_of
from proxy.configuration.preview import effects_of
from proxy.configuration.snapshot import load
from proxy.configuration.upstream import Upstream, read_upstream
from proxy.database.clock import clock
from proxy.pages.access import render_page, staff_page, staff_user
from proxy.pages.changes import with_undo_link
from proxy.serving.upstream_test import Problem, Step, models_of, probe

_MAX_MODEL_CHARS = 200
_TEST_INTERVAL = 2
"""Seconds between two tests by one user: each test is a request that costs money."""
_MAX_TEST_SECONDS = 120
_POLL_SECONDS = 0.1
_MODEL_LIST_SECONDS = 60
_MAX_MODELS = 500


@staff_page("change_upstream", methods=("GET", "POST"))
def test_upstream(request: HttpRequest, pk: int) -> HttpResponse:
    """Try every step from the name lookup to a streamed tool call."""
    row = get_object_or_404(models.Upstream, pk=pk)
    model = request.POST.get("model", "").replace("\0", "").strip()[:_MAX_MODEL_CHARS]
    steps = _test(request, row, model) if request.method == "POST" else None
    names = row.routes.exclude(upstream_model="").values_list("upstream_model", flat=True)
    return render_page(
        request,
        "configuration/upstream_test.html",
        f"Test {row.name}",
        row=row,
        steps=steps,
        is_ok=steps is not None and all(step.state == "ok" for step in steps),
        model=model or next(iter(names), ""),
        names=[*names],
    )


def _test(request: HttpRequest, row: models.Upstream, model: str) -> list[Step] | None:
    """Run the test. A second click shows the result of the first, also if that is still running."""
    user = staff_user(request).pk
    result = f"probe-{user}-{row.pk}-{version_of(row)}-{sha256(model.encode()).hexdigest()}"
    if cache.add(f"probe-{user}", True, _TEST_INTERVAL):
        upstream = _parse_upstream(request, row)
        if upstream is None:
            return None
        cache.set(result, [], _MAX_TEST_SECONDS)
        steps = [*probe(upstream, load(), model=model)]
        cache.set(result, steps, _TEST_INTERVAL)
        return steps
    deadline = monotonic() + _MAX_TEST_SECONDS
    while (running := cache.get(result)) == [] and monotonic() < deadline:
        sleep(_POLL_SECONDS)
    if not running:
        messages.warning(
            request, f"Wait {_TEST_INTERVAL} seconds between two tests, then try again."
        )
    return running or None


@staff_page("view_upstream", "add_modelroute")
def upstream_models(request: HttpRequest, pk: int) -> HttpResponse:
    """List the upstream's models to choose one for a route; as JSON for the route form."""
    row = get_object_or_404(models.Upstream, pk=pk)
    listed: dict[str, int | None] = {}
    problem, upstream = "", _parse_upstream(request, row)
    if upstream is not None:
        try:
            listed = _cached_models(row, upstream)
        except Problem as error:
            problem = str(error)
    if request.headers.get("accept") == "application/json":
        return JsonResponse({"models": [*listed], "problem": problem})
    search = request.GET.get("q", "").strip()
    matching = [name for name in listed if search.lower() in name.lower()]
    return render_page(
        request,
        "configuration/upstream_models.html",
        f"Models of {row.name}",
        row=row,
        problem=problem,
        search=search,
        total=len(listed),
        count=len(matching),
        models=[
            (
                name,
                detect_format(name).format,
                listed[name],
                _route_query(row, name, listed[name]),
                urlencode({"model": name}),
            )
            for name in matching[:_MAX_MODELS]
        ],
    )


@staff_page("view_upstream", "add_modelroute", "change_modelroute", methods=("GET", "POST"))
def claude_names(request: HttpRequest, pk: int) -> HttpResponse:
    """Let the upstream answer for all of Claude's model names: choose, preview, confirm."""
    row = get_object_or_404(models.Upstream, pk=pk)
    model = (request.POST or request.GET).get("model", "").replace("\0", "").strip()
    effects, version = None, 0
    if request.method == "POST" and not model:
        messages.error(request, "Enter the upstream's name for the model.")
    elif request.method == "POST":
        try:
            if _confirm_claude_names(row, model, request.POST.get("version", "")):
                done = f"Claude's model names are answered by {row.name} with {model}."
                messages.success(request, with_undo_link(done))
                return redirect("admin:proxy_modelroute_changelist")
            version = current_version()
            effects = effects_of(lambda: serve_claude_names(row, model), clock.now())
            if "version" in request.POST:
                messages.warning(request, "The configuration has changed. Check the preview again.")
        except ValidationError as error:
            messages.error(request, f"The routes cannot be set: {' '.join(error.messages)}")
    names = row.routes.exclude(upstream_model="").values_list("upstream_model", flat=True)
    return render_page(
        request,
        "configuration/claude_names.html",
        f"Let {row.name} answer for Claude’s names",
        row=row,
        effects=effects,
        version=version,
        model=model or next(iter(names), ""),
        names=sorted({*names}),
    )


def _confirm_claude_names(row: models.Upstream, model: str, version: str) -> bool:
    """Set the routes if the user has seen the preview of this configuration version."""
    with editing():
        if str(current_version()) != version:
            return False
        serve_claude_names(row, model)
    return True


def _cached_models(row: models.Upstream, upstream: Upstream) -> dict[str, int | None]:
    """Fetch the model list at most once a minute: the search and the route form ask repeatedly."""
    cache_key = f"listed-models-{row.pk}-{row.base_url}"
    listed: dict[str, int | None] | None = cache.get(cache_key)
    if listed is None:
        listed = models_of(upstream)
        cache.set(cache_key, listed, _MODEL_LIST_SECONDS)
    return listed


def _parse_upstream(request: HttpRequest, row: models.Upstream) -> Upstream | None:
    """Parse the row as requests do; on invalid settings add an error message and return None."""
    try:
        return read_upstream(row)
    except ValidationError as error:
        messages.error(request, f"This upstream's settings are invalid: {' '.join(error.messages)}")
        return None


def _route_query(row: models.Upstream, name: str, context_window: int | None) -> str:
    fields = {"upstream": str(row.pk), "upstream_model": name, "pattern": name}
    if context_window is not None:
        fields["context_window"] = str(context_window)
    return urlencode(fields)
