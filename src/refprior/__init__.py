"""Reference priors: exact for small models, as particles for deep networks.

    import refprior as rp

Small models: exact with a certificate (without torch), or variational
    rp.exact            reference_prior(Coin(10)), two_stage_prior, custom likelihoods
    rp.variational      samplers that learn the prior of one parameter from a bound, for comparison (torch)

Arrays with few labels (scikit-learn compatible)
    rp.ReferencePriorClassifier     fit(X, y) with -1 for unlabeled rows; predict_proba, uncertainty, suggest
    rp.ReferencePriorClusterer      fit(X) without labels, or with a labeled source task

Networks with few labels
    rp.recipes          mnist_ssl(labels=50), …: recipes by name; override, sweep
    rp.Recipe           custom recipes: data, network, method, optimizer
    rp.train            rp.train(recipe, "runs/mine") -> Run; the same call resumes an interrupted run
    rp.load             rp.load("runs/mine") -> Run
    rp.Run              predict, predict_proba, evaluate, uncertainty, posterior, consensus, predictor
    rp.Predictor        the deployable model, without data: predict_proba, uncertainty, calibrated, save
    rp.load_predictor   rp.load_predictor("models/mine") -> Predictor
    rp.Optimizer        SGD as in the paper, or Adam

Methods (all of them in rp.methods)
    rp.ReferencePrior, rp.Transfer, rp.UnsupervisedTransfer, rp.FixMatch, rp.Supervised
    rp.Needs, rp.Step, rp.Loss      the interface of custom methods

Parts
    rp.data             FewLabels, task_from_arrays, read, …
    rp.Task             labeled, unlabeled, validation and test inputs
    rp.views            weak and strong augmentation, batched
    rp.networks         MLP, SmallCNN, WideResNet; any nn.Module that returns logits
    rp.Particles        K networks as one module

Custom training loops
    rp.losses           every objective as a function of plain tensors
    rp.information      entropies and mutual information of a mixture of particles

After training
    rp.posterior        predictive distribution, calibration, uncertainty, clusters without labels
    rp.labeling         inputs to label next
    rp.geometry         the space of predictions: distances, principal components
    rp.report           tables, figures, pages
    rp.training         records, evaluations, estimates, snapshots of runs
"""

import lazy_loader as _lazy_loader

from refprior import _checks

__version__ = "0.2.0"

_load, __dir__, _names = _lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name in _names and name != "exact" and (missing := _checks.missing_for_networks()):
        raise ImportError(f"rp.{name} needs {missing}, which is not installed: pip install 'refprior[deep]'")
    return _load(name)
