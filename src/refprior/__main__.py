"""The command `refprior`, and `python -m refprior`: it handles Ctrl-C while the rest is imported."""

import gc
import signal
import sys


def main() -> None:
    try:
        from refprior import cli
    except KeyboardInterrupt:
        print("refprior: stopped", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    try:
        cli.main()
    finally:
        gc.freeze()  # Python would end with searches through all objects of torch, which take a second


if __name__ == "__main__":
    main()
