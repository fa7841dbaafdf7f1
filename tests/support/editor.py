"""Changes a gateway's rows as an operator would: `python -m tests.support.editor`, in its environment.

One that stays for as long as its gateway, as its start takes longer than all that tests change. It
reads the code of one change from each line, and answers with the configuration's version then, or
with what went wrong; both are JSON. Between two changes it has no connection to the database.
"""

import json
import sys
import traceback

import django


def main() -> None:
    django.setup()
    from django.db import connections

    from proxy import models

    names = {name: getattr(models, name) for name in models.__all__}
    for line in sys.stdin:
        try:
            exec(json.loads(line), dict(names))  # noqa: S102  a test's own words
            answer: object = models.ConfigurationVersion.objects.get().number
        except Exception:  # noqa: BLE001  the test is told
            answer = traceback.format_exc()
        connections.close_all()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
