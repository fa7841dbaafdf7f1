"""Every session of a person is ended at once: a laptop that was lost is logged out, too."""

from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.sessions.models import Session
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from proxy.pages.access import page, shown, user_of


@page(methods=("GET", "POST"))
def end_sessions(request: HttpRequest) -> HttpResponse:
    if request.method == "GET":
        return shown(request, "admin/logout_everywhere.html", "Log out everywhere")
    # Whose a session is stands inside it, and there are as many as staff has browsers.
    person = str(user_of(request).pk)
    for session in Session.objects.filter(expire_date__gt=timezone.now()).iterator():
        if session.get_decoded().get("_auth_user_id") == person:
            session.delete()
    logout(request)
    messages.success(request, "You are logged out everywhere.")
    return redirect("admin:index")
