"""Log out everywhere: ends all sessions of the current user, for example after losing a laptop."""

from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.sessions.models import Session
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from proxy.pages.access import render_page, staff_page, staff_user


@staff_page(methods=("GET", "POST"))
def end_sessions(request: HttpRequest) -> HttpResponse:
    if request.method == "GET":
        return render_page(request, "admin/logout_everywhere.html", "Log out everywhere")
    # The user id is inside the encoded session, so all sessions are read; there are few.
    user_id = str(staff_user(request).pk)
    for session in Session.objects.filter(expire_date__gt=timezone.now()).iterator():
        if session.get_decoded().get("_auth_user_id") == user_id:
            session.delete()
    logout(request)
    messages.success(request, "You are logged out in all browsers.")
    return redirect("admin:index")
