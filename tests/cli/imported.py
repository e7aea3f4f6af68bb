"""What commands import, imported once in the process that others are forked from."""

import joblib.externals.loky.backend.popen_loky_posix
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

__all__ = ["joblib", "plt", "refprior", "sklearn", "torch"]
