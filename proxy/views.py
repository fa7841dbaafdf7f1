"""The gateway's own endpoints."""

from django.http import HttpRequest, JsonResponse


async def healthz(request: HttpRequest) -> JsonResponse:
    """Says that the process serves; what it depends on is not asked."""
    return JsonResponse({"status": "ok"})
