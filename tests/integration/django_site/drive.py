"""python drive.py STEP [IDS]"""

import json
import sys

import django

django.setup()
if __name__ == "__main__":
    from steps import STEPS, backend

    name, *given = sys.argv[1:]
    print(json.dumps(STEPS[name](*(json.loads(text) for text in given))))
    backend.queue.sync.close()
