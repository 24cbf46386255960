"""`python -m tvmr` is the command `tvmr`."""

import sys

from tvmr._command import main

sys.exit(main())
