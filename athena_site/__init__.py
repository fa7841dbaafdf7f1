"""The Django project.

settings          all settings and their defaults; cookies, and how long a session lasts
environment       reads `.env`, Redis URLs and the secret key file
settings_login    login, and the lockout after failed logins
settings_api, settings_logging   the management API; the log
urls              all URLs
asgi              sends `/v1` to the hot path, other paths to Django
postgresql        Django's PostgreSQL backend with a timeout on every wait
locale            date formats
"""
