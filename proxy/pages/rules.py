"""Which rule wins: a model's name, and all that the present configuration does for it."""

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from proxy.configuration.explain import Fact, explain
from proxy.configuration.preview import known_models, treatment
from proxy.configuration.snapshot import load
from proxy.database.clock import clock
from proxy.pages.access import page, shown

_MOST_CHARS = 300
_MOST_KNOWN = 30


@page("view_modelroute", "view_formatoverride", "view_formatsettings", "view_upstream")
def rules(request: HttpRequest) -> HttpResponse:
    name = request.GET.get("model", "").replace("\0", "").strip()[:_MOST_CHARS]
    snapshot, names = load(), known_models(clock.now())
    found = explain(snapshot, name) if name else None
    return shown(
        request,
        "configuration/rules.html",
        "Which rule wins",
        name=name,
        names=names,
        found=found,
        facts=[(fact, _edit(fact)) for fact in found.facts] if found else [],
        beaten=[(fact, _edit(fact)) for fact in found.beaten] if found else [],
        known=[(known, treatment(snapshot, known)) for known in names[:_MOST_KNOWN]],
        version=snapshot.version,
    )


def _edit(fact: Fact) -> str:
    """Where the row can be edited that says so; empty if none does."""
    if fact.row is None:
        return ""
    return reverse(f"admin:proxy_{fact.row._meta.model_name}_change", args=[fact.row.pk])
