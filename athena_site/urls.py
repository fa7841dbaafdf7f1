"""Every URL on one screen."""

from django.contrib import admin
from django.urls import path

from proxy import views

urlpatterns = [
    path("healthz", views.healthz),
    path("admin/", admin.site.urls),
]
