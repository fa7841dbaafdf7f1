#!/usr/bin/env python
"""Command line of the project: `manage.py serve`, `manage.py doctor` and all other commands."""

import gc
import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line
from django.db import InterfaceError, OperationalError

# Garbage collection takes a quarter of the start time and finds nothing while modules are imported.
# `proxy/apps.py` enables it when the application is ready. Workers import this file, too.
gc.disable()

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "athena_site.settings")
    # Files that are written, including the database, are private to this user.
    os.umask(0o077)
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(f"Athena cannot start: {error}")
    except KeyboardInterrupt:  # for example during the first start
        sys.exit(130)
    except (OperationalError, InterfaceError) as error:
        if "--traceback" in sys.argv:
            raise
        from proxy.database.outage import message_without_password  # needs configured settings

        sys.exit(f"The database cannot be used: {message_without_password(error)}")
