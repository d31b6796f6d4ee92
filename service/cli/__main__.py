"""`python -m service.cli`: the same as `retrace`, for who has the interpreter but not the script."""

import sys

from service.cli import main

if __name__ == "__main__":
    sys.exit(main())
