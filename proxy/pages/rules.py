"""Rules page: which route, format and limits apply to a model name, and which rule set each."""

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from proxy.configuration.explain import Fact, explain
from proxy.configuration.preview import known_models, resolved_model
from proxy.configuration.snapshot import load
from proxy.database.clock import clock
from proxy.pages.access import render_page, staff_page

_MAX_NAME_CHARS = 300
_MAX_KNOWN_MODELS = 30


@staff_page("view_modelroute", "view_formatoverride", "view_formatsettings", "view_upstream")
def rules(request: HttpRequest) -> HttpResponse:
    name = request.GET.get("model", "").replace("\0", "").strip()[:_MAX_NAME_CHARS]
    snapshot, names = load(), known_models(clock.now())
    explanation = explain(snapshot, name) if name else None
    return render_page(
        request,
        "configuration/rules.html",
        "Which rule wins",
        name=name,
        names=names,
        explanation=explanation,
        facts=[(fact, _edit_url(fact)) for fact in explanation.facts] if explanation else [],
        overruled=[(fact, _edit_url(fact)) for fact in explanation.overruled]
        if explanation
        else [],
        known=[(known, resolved_model(snapshot, known)) for known in names[:_MAX_KNOWN_MODELS]],
        version=snapshot.version,
    )


def _edit_url(fact: Fact) -> str:
    """Return the URL of the form that edits the rule; empty for built-in defaults."""
    if fact.row is None:
        return ""
    return reverse(f"admin:proxy_{fact.row._meta.model_name}_change", args=[fact.row.pk])
