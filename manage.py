#!/usr/bin/env python
"""Django's command line for this project."""

import gc
import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line
from django.db import InterfaceError, OperationalError

# To look for garbage in what is being imported is a quarter of a start, and there is none: not
# before the application is ready (`proxy/apps.py`). Workers import this file, too.
gc.disable()

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "athena_site.settings")
    # What is written, the database's files among it, is for nobody else on this machine.
    os.umask(0o077)
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(f"Athena cannot start: {error}")
    except (OperationalError, InterfaceError) as error:
        if "--traceback" in sys.argv:
            raise
        from proxy.database.outage import told  # it needs the settings

        sys.exit(f"The database cannot be used: {told(error)}")
