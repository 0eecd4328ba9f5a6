"""Command line: python -m tei_double --model-id intfloat/multilingual-e5-small"""

from __future__ import annotations

import os
import sys

import uvicorn
from bundled_engine.model import Model

from .app import StartError, create_app, settings_from
from .cli import UsageError, parse

DEFAULT_VERSION = "1.9.3"


def main() -> None:
    version = os.environ.get("TEI_DOUBLE_VERSION", DEFAULT_VERSION)
    try:
        options = parse(sys.argv[1:], os.environ, version)
    except UsageError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    try:
        settings = settings_from(options, version)
    except StartError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(1)
    uvicorn.run(create_app(settings, Model()), host="0.0.0.0", port=options["port"], access_log=False)


if __name__ == "__main__":
    main()
