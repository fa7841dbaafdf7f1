"""Login settings: authentication backends and the lockout after failed logins (django-axes)."""

from datetime import timedelta

# The page after a login without `next`, or with one that leads to another site.
LOGIN_REDIRECT_URL = "admin:index"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",  # first: rejects locked-out logins
    "django.contrib.auth.backends.ModelBackend",
]
# The gateway's own lockout rules replace those of axes.
AXES_HANDLER = "proxy.security.login_lockout.LockoutHandler"
AXES_FAILURE_LIMIT = 5  # failed logins per username and address
AXES_FAILURE_LIMIT_OF_ADDRESS = 50  # failed logins per address, over all usernames
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]  # count failures per pair
AXES_COOLOFF_TIME = timedelta(minutes=15)  # how long a lockout lasts
AXES_LOCKOUT_CALLABLE = "proxy.security.login_lockout.lockout_response"  # renders the 429 page
# Returns the client's address; the server has already applied trusted proxies.
AXES_CLIENT_IP_CALLABLE = "proxy.security.login_lockout.client_address"
AXES_RESET_ON_SUCCESS = True  # a successful login clears the counter
AXES_DISABLE_ACCESS_LOG = True  # Django already stores each user's last login
AXES_VERBOSE = False  # no log lines of its own; the gateway logs lockouts
AXES_ENABLE_ADMIN = False  # no admin pages; unlock with `manage.py axes_reset_username NAME`
