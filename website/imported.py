"""What notebooks import, imported once in the process that their kernels are forked from."""

import ipykernel.kernelapp
import matplotlib.pyplot as plt
import sklearn.datasets
import torch

import refprior.estimators
import refprior.report
import refprior.training

torch.set_num_threads(1)  # threads do not survive a fork

__all__ = ["ipykernel", "plt", "refprior", "sklearn", "torch"]
