"""Kernels of notebooks, forked from a process that has imported torch: a start takes one second instead of seven."""

import multiprocessing
import os
from importlib.metadata import EntryPoint
from multiprocessing.context import ForkServerProcess
from typing import Any

from jupyter_client import KernelConnectionInfo
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

NAME = "forked"
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["website.imported"])


class Forked:
    """A kernel's process, as jupyter_client wants it: like `subprocess.Popen`, with no pipes."""

    stdin = stdout = stderr = None

    def __init__(self, arguments: list[str], cwd: str, variables: dict[str, str]) -> None:
        self._process: ForkServerProcess = _forks.Process(target=_kernel, args=(arguments, cwd, variables))
        self._process.start()
        self.pid = self._process.pid
        self.kill, self.terminate = self._process.kill, self._process.terminate

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int | None:
        self._process.join()
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        assert self.pid is not None
        os.kill(self.pid, number)


def _kernel(arguments: list[str], cwd: str, variables: dict[str, str]) -> None:
    os.setsid()  # Ctrl-C in the terminal is for the one who runs the notebooks
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(cwd)
    import matplotlib
    import torch
    from ipykernel.kernelapp import launch_new_instance

    matplotlib.rcParams["backend"] = variables["MPLBACKEND"]
    torch.set_num_threads(1)
    launch_new_instance(argv=[*arguments, f"--IPKernelApp.parent_handle={os.getppid()}"])  # it ends with its parent


class Provisioner(LocalProvisioner):
    """Starts kernels that are forked."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        forked = Forked(cmd[cmd.index("-f") :], kwargs["cwd"], kwargs["env"])
        self.process, self.pid = forked, forked.pid  # type: ignore[assignment]
        return self.connection_info


KernelProvisionerFactory.instance().provisioners[NAME] = EntryPoint(NAME, f"{__name__}:Provisioner", "")
