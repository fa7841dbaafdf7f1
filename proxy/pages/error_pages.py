"""What is shown instead of a page: JSON for programs of the API, a plain page for people.

Neither says why, that is in the log; but of a host name, which an operator has to allow. `/v1` is
none of this; the slim handler answers there.
"""

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.template.loader import render_to_string
from django.views import defaults

_API = "/api/"
_WRONG_HOST = "The gateway is not known by this host name: see ATHENA_ALLOWED_HOSTS."


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    is_host = isinstance(exception, DisallowedHost)
    if request.path.startswith(_API):
        detail = _WRONG_HOST if is_host else "The request is malformed."
        return JsonResponse({"detail": detail}, status=400)
    if is_host:  # without the name: anybody can send any
        return HttpResponse(render_to_string("unknown_host.html"), status=400)
    return defaults.bad_request(request, exception)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if request.path.startswith(_API):
        return JsonResponse({"detail": "There is nothing here."}, status=404)
    return defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponseBase:
    if request.path.startswith(_API):
        return JsonResponse({"detail": "A defect of the gateway: see its log."}, status=500)
    return defaults.server_error(request)
