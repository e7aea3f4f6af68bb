"""`python -m refprior` is the command `refprior`."""

from refprior.cli import main

main()
