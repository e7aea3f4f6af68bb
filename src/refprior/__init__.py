"""Reference priors: exact for small models, as particles for deep networks.

    import refprior as rp

Small models: with a certificate (without torch), or by a bound
    rp.exact            reference_prior(Coin(10)), two_stage_prior, your own likelihood
    rp.variational      a sampler that learns the prior of one parameter from a bound, for comparison (torch)

Arrays with few labels, in the manner of scikit-learn
    rp.ReferencePriorClassifier     fit(X, y) with -1 for no label; predict_proba, uncertainty, suggest
    rp.ReferencePriorClusterer      fit(X) without any label, or with those of a source

Networks with few labels
    rp.recipes          mnist_ssl(labels=50), …: recipes by name; override, sweep
    rp.Recipe           your own: data, network, method, optimizer
    rp.train            rp.train(recipe, "runs/mine") -> Run; the same call goes on after an interruption
    rp.load             rp.load("runs/mine") -> Run, without the recipe
    rp.Run              predict, predict_proba, evaluate, uncertainty, posterior, consensus, predictor
    rp.Predictor        what one deploys, without data: predict_proba, uncertainty, calibrated, save
    rp.load_predictor   rp.load_predictor("models/mine") -> Predictor
    rp.Optimizer        SGD as in the paper, or Adam

Methods (all of them in rp.methods)
    rp.ReferencePrior, rp.Transfer, rp.UnsupervisedTransfer, rp.FixMatch, rp.Supervised
    rp.Needs, rp.Step, rp.Loss      the contract of a method of your own

Parts
    rp.data             FewLabels, task_from_arrays, read, …
    rp.Task             labeled, unlabeled, validation and test images
    rp.views            weak and strong augmentation, batched
    rp.networks         MLP, SmallCNN, WideResNet; any nn.Module that returns logits
    rp.Particles        K networks as one module

Without our loop
    rp.losses           every objective as a function of plain tensors
    rp.information      entropies and mutual information of a mixture of particles

After training
    rp.posterior        predictive distribution, calibration, uncertainty, consensus without labels
    rp.labeling        which images to label next
    rp.geometry         the space of predictions: distances, principal components
    rp.report           tables, figures, pages
    rp.training         records, evaluations, estimates, snapshots: what a run is made of
"""

import lazy_loader as _lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, _ = _lazy_loader.attach_stub(__name__, __file__)
