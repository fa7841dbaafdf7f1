"""Who may use an endpoint: a token or a session, of staff, with the permissions it names.

Denied by default: a view names the permissions of each of its actions, and one that is not named is
nobody's. What somebody may not even see is not found, so that no id can be tried out.
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


class Allowed(BasePermission):
    def has_permission(self, request: Request, view: APIView) -> bool:
        user = request.user
        if isinstance(user, AnonymousUser) or not user.is_staff:
            return False
        if not isinstance(view, Guarded):
            return False
        action = _action(view, request)
        if action is None:
            raise MethodNotAllowed(request.method or "")
        needs = view.needs.get(action)
        if needs is None:
            return False
        if all(user.has_perm(f"proxy.{name}") for name in needs):
            return True
        sees = all(user.has_perm(f"proxy.{name}") for name in needs if name.startswith("view_"))
        if not sees and view.kwargs:
            raise Http404
        return False


class Guarded(APIView):
    """A view whose actions are for those with the permissions that it names."""

    permission_classes = [Allowed]
    needs: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """By action, or by method in small letters: permissions of this project."""


def _action(view: Guarded, request: Request) -> str | None:
    """The name of what is asked for; None if the view has no such method."""
    method = (request.method or "").lower()
    method = "get" if method == "head" else method
    if isinstance(view, ViewSetMixin):
        return view.action_map.get(method) if view.action_map else None
    return method if method in view.needs else None


def user_of(request: Request) -> User:
    """The person; only for views that `Allowed` guards."""
    assert isinstance(request.user, User)  # noqa: S101
    return request.user
