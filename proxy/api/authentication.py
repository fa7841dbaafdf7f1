"""Authentication of API requests by token."""

from django.contrib.auth.models import User
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from proxy.database.clock import clock
from proxy.models import ApiToken

SCHEME = "bearer"


class TokenAuthentication(BaseAuthentication):
    """Reads `Authorization: Bearer …`; the request acts as the token's owner."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _, plain = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != SCHEME:
            return None
        token = ApiToken.find(plain.strip(), clock.now())
        if token is None or not token.owner.is_active:
            raise AuthenticationFailed("The token is unknown or has expired.")
        return token.owner, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class DenyAll(BasePermission):
    """The default for views that do not state their permissions.

    It is here because REST framework loads its defaults before its views, which `permissions`
    imports.
    """

    def has_permission(self, request: Request, view: object) -> bool:
        return False
