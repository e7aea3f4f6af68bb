"""What commands import, imported once in the process that others are forked from."""

import matplotlib.pyplot as plt
import sklearn.cluster
import sklearn.datasets
import torch

import refprior.cli
import refprior.estimators
import refprior.recipes
import refprior.report
import refprior.training

torch.set_num_threads(1)  # threads do not survive a fork

__all__ = ["plt", "refprior", "sklearn", "torch"]
