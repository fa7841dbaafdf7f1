"""Edits the configuration of a gateway: `python -m tests.support.editor`, in its environment.

One editor process lives as long as its gateway, because its start takes longer than all edits of a
test. Each input line is the code of one edit; the answer is the new configuration version or a
traceback. Both are JSON. Between edits it has no connection to the database.
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
            exec(json.loads(line), dict(names))  # noqa: S102  the code comes from a test
            answer: object = models.ConfigurationVersion.objects.get().number
        except Exception:  # noqa: BLE001  the test gets the traceback
            answer = traceback.format_exc()
        connections.close_all()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
