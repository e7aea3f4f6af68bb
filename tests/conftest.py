"""Give every test process one thread, and the signals that a shell gives to a foreground job."""

import signal
from contextlib import suppress

with suppress(ModuleNotFoundError):  # `make test-exact` runs without torch
    import torch

    torch.set_num_threads(1)  # the suite runs two processes on two cores

# `nohup` ignores SIGHUP and a shell's background job ignores SIGINT, and processes inherit that. Tests send both.
for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, default)
