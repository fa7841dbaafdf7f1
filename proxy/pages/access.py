"""Page access and rendering: the permission check and the admin frame that all pages share."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

from django.contrib import admin
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from proxy.security.visible_text import visible

_View: TypeAlias = Callable[..., HttpResponse]


def staff_page(
    *permissions: str, methods: tuple[str, ...] = ("GET", "HEAD")
) -> Callable[[_View], _View]:
    """Limit a view to staff with all the permissions.

    Staff without them get 403; anyone else is redirected to the login page.
    """

    def decorate(view: _View) -> _View:
        @wraps(view)
        def checked(request: HttpRequest, **kwargs: Any) -> HttpResponse:
            user = request.user
            if not (user.is_active and user.is_staff):
                return redirect_to_login(request.get_full_path(), reverse("admin:login"))
            if not all(has_permission(request, name) for name in permissions):
                raise PermissionDenied
            return view(request, **kwargs)

        return require_http_methods(list(methods))(checked)

    return decorate


def has_permission(request: HttpRequest, permission: str) -> bool:
    return request.user.has_perm(f"proxy.{permission}")


def staff_user(request: HttpRequest) -> User:
    """Return the logged-in user. Call only in views guarded by `staff_page`."""
    assert isinstance(request.user, User)  # noqa: S101
    return request.user


def render_page(
    request: HttpRequest, template: str, title: str, **context: Any
) -> TemplateResponse:
    """Render a page in the admin's frame, without its sidebar: these pages need the width."""
    frame = admin.site.each_context(request)
    return TemplateResponse(
        request,
        template,
        {**frame, "title": visible(title), "is_nav_sidebar_enabled": False, **context},
    )
