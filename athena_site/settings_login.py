"""Settings of how people log in, and of who is locked out (`proxy.security.login_lockout`)."""

from datetime import timedelta

AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",  # first: who is locked out is not even looked up
    "django.contrib.auth.backends.ModelBackend",
]
# Failed logins: a name at an address is locked soon, an address that tries many names later.
AXES_HANDLER = "proxy.security.login_lockout.Lockout"
AXES_FAILURE_LIMIT = 5
AXES_FAILURE_LIMIT_OF_ADDRESS = 50
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_LOCKOUT_CALLABLE = "proxy.security.login_lockout.locked_out"
AXES_CLIENT_IP_CALLABLE = "proxy.security.login_lockout.address_of"
AXES_RESET_ON_SUCCESS = True
AXES_DISABLE_ACCESS_LOG = True  # who logged in is in the admin's own table
AXES_VERBOSE = False
AXES_ENABLE_ADMIN = False  # `manage.py axes_reset_username NAME` unlocks
