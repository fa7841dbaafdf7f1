"""Access rules of the API: staff only, with the permissions that the endpoint requires.

Access is denied by default. A view lists the permissions of each of its actions; anything unlisted
is denied. What a user may not view is 404, lists included, so that nothing can be probed; what they
may view but not change is 403.
"""

from collections.abc import Mapping
from typing import ClassVar

from django.contrib.auth.models import AnonymousUser, User
from django.http import Http404
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSetMixin


class HasRequiredPermissions(BasePermission):
    def has_permission(self, request: Request, view: APIView) -> bool:
        user = request.user
        if isinstance(user, AnonymousUser) or not user.is_staff:
            return False
        if not isinstance(view, ProtectedView):
            return False
        action = _action(view, request)
        if action is None:
            raise MethodNotAllowed(request.method or "")
        required = view.required_permissions.get(action)
        if required is None:
            return False
        if all(user.has_perm(f"proxy.{name}") for name in required):
            return True
        may_view = all(
            user.has_perm(f"proxy.{name}") for name in required if name.startswith("view_")
        )
        if not may_view:
            raise Http404
        return False


class ProtectedView(APIView):
    """A view that lists the permissions which each of its actions requires."""

    permission_classes = [HasRequiredPermissions]
    required_permissions: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Permissions of the app `proxy`, by action or by lower-case HTTP method."""


def _action(view: ProtectedView, request: Request) -> str | None:
    """The requested action; None if the view does not support the method."""
    method = (request.method or "").lower()
    method = "get" if method == "head" else method
    if isinstance(view, ViewSetMixin):
        return view.action_map.get(method) if view.action_map else None
    return method if method in view.required_permissions else None


def user_of(request: Request) -> User:
    """The logged-in user; only for views with HasRequiredPermissions."""
    assert isinstance(request.user, User)  # noqa: S101
    return request.user
