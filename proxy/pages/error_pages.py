"""Error responses for 400, 404 and 500: JSON under `/api/`, an HTML page elsewhere.

The response does not include the cause, which is in the log, except for an unknown host name: the
operator has to allow it. `/v1` never gets here; `proxy.serving.handler` answers its errors.
"""

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.template.loader import render_to_string
from django.views import defaults

_API_PREFIX = "/api/"
_UNKNOWN_HOST = (
    "The gateway does not serve this host name. Add it to ATHENA_ALLOWED_HOSTS and restart."
)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    is_host = isinstance(exception, DisallowedHost)
    if request.path.startswith(_API_PREFIX):
        detail = _UNKNOWN_HOST if is_host else "The request is malformed."
        return JsonResponse({"detail": detail}, status=400)
    if is_host:  # without the name, which the client chose freely
        return HttpResponse(render_to_string("unknown_host.html"), status=400)
    return defaults.bad_request(request, exception)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if request.path.startswith(_API_PREFIX):
        return JsonResponse({"detail": "Not found."}, status=404)
    return defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponseBase:
    if request.path.startswith(_API_PREFIX):
        return JsonResponse(
            {"detail": "Internal error. The gateway's log has the cause."}, status=500
        )
    return defaults.server_error(request)
