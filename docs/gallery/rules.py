"""
Labels that do not say what you mean
====================================

All labels are right, and yet they do not determine the task. Each input shows two digits, and on every labeled
input the left one (0 or 1) and the right one (3 or 8) give the same answer. Did the labels mean the left digit, the
right one, or both? A network learns the easiest rule and does not report the others.
"""

# Figure: Labeled inputs, on which both digits agree, and unlabeled inputs, on which
# they may not
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import refprior as rp

images, digit = load_digits(return_X_y=True)
random = np.random.default_rng(0)


def dominoes(left, right):
    def draw(cue, zero, one):
        wanted = np.where(cue == 1, one, zero)
        return images[[random.choice(np.flatnonzero(digit == d)) for d in wanted]]

    return np.hstack([draw(left, 0, 1), draw(right, 3, 8)])


label = random.integers(0, 2, 120)
left, right = random.integers(0, 2, (2, 1000))
pool = dominoes(left, right)
X, y = np.vstack([dominoes(label, label), pool]), np.append(label, np.full(1000, -1))

figure, axes = plt.subplots(2, 6, figsize=(6.6, 2.8), layout="constrained")
shown = [(X[i], f"label {label[i]}") for i in range(6)]
shown += [(pool[i], "?") for i in np.flatnonzero(left != right)[:6]]
for ax, (row, title) in zip(axes.flat, shown, strict=True):
    ax.imshow(np.hstack(row.reshape(2, 8, 8)), cmap="gray_r")
    ax.set_title(title)
    ax.axis("off")
plt.show()

# %%
# ``ReferencePrior.underspecified()`` trains particles that fit the labels and spread over the rules that are left.
# ``fit`` warns that the labels may not determine the task, and ``rules`` groups the particles that agree.

import logging
import sys

logging.basicConfig(stream=sys.stdout, format="%(message)s")
clf = rp.ReferencePriorClassifier(
    rp.ReferencePrior.underspecified(), particles=16, random_state=0
).fit(X, y)
print(clf.rules(pool))

# %%
# ``suggest`` asks for the labels that decide between them, and ``given`` weights the particles by the answers,
# without training. Suppose that you meant the right digit:

before = (clf.predict(pool) == right).mean()
asked = clf.suggest(pool, budget=4, about="rule")
clf.given(pool[asked], right[asked])
after = (clf.predict(pool) == right).mean()
print(f"{100 * before:.1f} % before, {100 * after:.1f} % after {len(asked)} answers")

# %%
# Why the order matters
# ---------------------
#
# The paper computes the information of *n* labels at a time and takes n ≥ 2. Here is a reason. Let a share q of the
# pool contradict the shortcut, half of it in each direction. The labels admit four rules: left, right, "both", and
# "either". A prior on the two opposite rules left and right has the information
#
# I₂(n) = (1 − (1 − q)ⁿ) log 2,
#
# because one contradicting input decides between them. A uniform prior on all four rules has
#
# I₄(n) = 2 (1 − (1 − q/2)ⁿ) log 2,
#
# because each direction that occurs among the n inputs decides one of two independent questions.
#
# **At n = 1 both are q log 2, and for n ≥ 2 four rules have more information.** Proof: with u = 1 − q/2, the
# difference over log 2 is 1 + (2u − 1)ⁿ − 2uⁿ. As u is the mean of 1 and 2u − 1, Jensen's inequality for the convex
# function zⁿ gives uⁿ ≤ (1 + (2u − 1)ⁿ) / 2, with equality only if n = 1 or q = 0. ∎
#
# At order 1 the information depends on the prior only through the share of particles that give each single input its
# label, so it cannot count rules at all. The exact half of refprior computes the best prior over *all* labelings of
# the contradicting inputs: w is the probability of label 1 in each of the two directions, and the four rules are the
# corners of the square. With q = 1/2:


def one_label(w):
    a, b = w.T
    with np.errstate(divide="ignore"):
        return np.log(
            np.stack([0 * a + 1 / 2, (1 - a) / 4, a / 4, (1 - b) / 4, b / 4], 1)
        )


channel = rp.exact.Channel.from_function(
    one_label, bounds=[(0, 1), (0, 1)], outcomes=range(5)
)
print("order  two rules  four rules  best prior  its weight on the four rules")
for n in (1, 2, 3):
    prior = rp.exact.reference_prior(channel.repeat(n))
    corners = ((prior.atoms == 0) | (prior.atoms == 1)).all(1)
    two, four = np.log(2) * (1 - 0.5**n), np.log(2) * 2 * (1 - 0.75**n)
    print(
        f"{n:5}  {two:9.6f}  {four:10.6f}  {prior.information:10.6f}  {prior.weights[corners].sum():.4f}"
    )

# %%
# The reference prior of two or more labels is the prior on the four rules, up to 1 % of its weight.
#
# Why α matters
# -------------
#
# Where all particles predict the same, h_y = h_yw = H, and the loss −γ (α h_y − h_yw) is γ (1 − α) H: below α = 1 it
# makes the common answer more confident, so that agreement attracts. At α = 1 agreement is neutral, and particles
# with different rules stay apart. The preset begins at α = 1 and ends at 0.3, so that particles agree again where the
# labels determine the task.
#
# Results
# -------
#
# Dominoes of MNIST 0 or 1 (the shortcut) beside Fashion-MNIST coat or dress (the truth), 14 × 28 pixels; a
# perceptron, 400 steps, a pool of 4,000 in which both are independent. Accuracy in % after 4 answers, mean ± standard
# deviation of five seeds that chose no setting. "Worst truth" is the worst of four truths: either image, both, and at
# least one.
#
# .. csv-table::
#    :delim: |
#    :header: method | worst truth | truth | 40 labels | 10 % contradict | no shortcut, 40 | 200 | 1,000
#
#    ensemble, K = 16 | 55.6 ± 1.9 | 55.6 ± 1.9 | 65.2 ± 6.9 | 55.4 ± 2.0 | 87.8 ± 1.6 | 92.8 ± 0.6 | 94.4 ± 0.6
#    FixMatch, K = 16 | 64.8 ± 3.8 | 66.6 ± 0.9 | 68.8 ± 1.0 | 51.6 ± 3.0 | 90.0 ± 1.0 | 92.7 ± 0.9 | 94.5 ± 0.4
#    ``ReferencePrior()``, K = 8 | 67.7 ± 1.1 | 67.7 ± 1.1 | 77.5 ± 10.8 | 61.9 ± 1.3 | 90.1 ± 1.5 | 92.9 ± 0.9 | 94.4 ± 0.2
#    ``underspecified()``, K = 16 | **93.7 ± 0.4** | 93.7 ± 0.4 | 87.6 ± 2.3 | **82.5 ± 2.6** | 88.1 ± 4.0 | 92.8 ± 0.8 | 94.2 ± 0.3
#    ``underspecified(balanced=True)``, K = 16 | 74.2 ± 1.5 | 93.5 ± 1.2 | 89.3 ± 3.3 | 80.8 ± 5.1 | **90.2 ± 1.0** | 92.6 ± 0.9 | 94.5 ± 0.2
#    DivDis, K = 2 | 71.6 ± 1.5 | **93.8 ± 0.2** | **89.8 ± 2.5** | 50.8 ± 1.0 | 88.9 ± 1.8 | 92.2 ± 0.7 | 94.1 ± 0.4
#    D-BAT, K = 4 | 70.0 ± 1.1 | 93.4 ± 0.7 | 68.2 ± 4.3 | 55.3 ± 1.6 | 84.5 ± 8.0 | 92.6 ± 0.7 | 94.3 ± 0.5
#
# Only ``underspecified()`` finds all four rules. Its accuracy under the worst truth depends on the number of particles,
# and, with α = 1 throughout and 16 particles, on the order:
#
# .. csv-table::
#    :delim: |
#    :header: particles | 2 | 4 | 8 | 16 | 32
#
#    worst truth | 68.6 ± 1.1 | 86.3 ± 7.8 | 89.5 ± 5.8 | 93.7 ± 0.4 | 92.8 ± 0.9
#
# .. csv-table::
#    :delim: |
#    :header: order | 1 | 2 | 3 | 4
#
#    worst truth | 75.3 ± 10.0 | 92.7 ± 2.0 | 92.5 ± 1.4 | 92.7 ± 0.4
#
# Other tasks and amounts of data, accuracy on the truth after 4 answers:
#
# .. csv-table::
#    :delim: |
#    :header: task | ensemble | ``underspecified()`` | ``balanced=True`` | DivDis
#
#    20 labels | 67.8 ± 6.6 | 84.2 ± 4.8 | **87.6 ± 1.3** | 86.2 ± 6.4
#    100 labels | 61.4 ± 3.4 | 86.1 ± 10.6 | 88.5 ± 5.3 | **91.5 ± 0.6**
#    200 labels | 62.4 ± 1.9 | 91.2 ± 1.5 | 92.1 ± 0.6 | **92.4 ± 0.7**
#    30 % contradict | 55.4 ± 2.0 | 88.9 ± 2.2 | 88.1 ± 2.4 | **90.6 ± 1.3**
#    50 % contradict | 55.5 ± 1.9 | 91.1 ± 2.2 | 91.0 ± 1.3 | **92.4 ± 0.4**
#    three cues; DivDis with K = 3 | 66.5 ± 1.3 | 88.8 ± 2.7 | **90.4 ± 1.9** | 87.0 ± 4.6
#    table with two redundant groups of columns, 60 labels | 63.3 ± 3.2 | **96.8 ± 0.3** | 96.1 ± 1.8 | 91.9 ± 4.3
#    colored MNIST: color or digit below 5 | 49.6 ± 0.8 | 71.8 ± 6.0 | 75.9 ± 13.8 | **85.0 ± 0.8**
#    embeddings of two photos, 200 labels, linear | 72.5 ± 1.3 | 72.4 ± 2.9 | 71.0 ± 2.8 | 72.0 ± 2.7
#    MNIST above CIFAR-10 car or truck, patch features | 50.4 ± 0.7 | 56.3 ± 2.4 | 59.4 ± 5.7 | **61.2 ± 5.5**
#    the same, small convolutional network, one seed | 49.1 | 49.8 | 49.2 | 49.1
#    the dominoes above, small convolutional network | 50.8 ± 0.9 | 91.3 ± 1.6 | **92.9 ± 1.3** | 91.9 ± 4.3
#
# Every method is weaker with few labels, or with a pool that rarely contradicts the shortcut. On colored MNIST the
# digit is much harder to learn than the color. No method learns cars and trucks in 400 steps. With three cues, DivDis
# with two particles reaches 63.8 ± 11.4.
#
# One default with and without a shortcut
# ---------------------------------------
#
# New labels can *select* a particle, or leave the *average* as it is. Selection is right if the particles follow
# different rules. The average is right if they only err in different places. ``given`` weights both hypotheses by
# their evidence, so that you need not choose (``underspecified()``, accuracy on the truth in %):
#
# .. csv-table::
#    :delim: |
#    :header: after 4 answers | shortcut, 1,000 labels | shortcut, 40 | no shortcut, 40 | 200 | 1,000 | embeddings, 200
#
#    average | 56.7 ± 5.6 | 66.7 ± 2.1 | 88.5 ± 1.6 | 92.9 ± 0.5 | 94.4 ± 0.3 | 86.1 ± 0.5
#    selection | 93.9 ± 0.5 | 87.4 ± 2.3 | 87.9 ± 4.1 | 92.2 ± 1.0 | 93.8 ± 0.7 | 75.0 ± 2.9
#    by evidence | 93.7 ± 0.4 | 87.6 ± 2.3 | 88.1 ± 4.0 | 92.8 ± 0.8 | 94.2 ± 0.3 | 80.4 ± 4.2
#
# Linear heads on embeddings show a limit: each of the 16 particles is a different rule there, and one of them often
# agrees with four answers by chance. By default ``suggest`` does not ask about the rule in this case, because labels
# count as ambiguous only if rules shared by several particles have half of the weight.
#
# Goals
# -----
#
# Four goals were set before the measurements.
#
# .. csv-table::
#    :delim: |
#    :header: goal | result |
#
#    worst truth of at least 93 %, perceptron | 93.7 ± 0.4 | met
#    worst truth of at least 90 %, convolutional network | 78.7 ± 8.0; DivDis 72.9 ± 2.0 | missed
#    no shortcut: at most 0.5 points below the ensemble | met before any answer; −3.6 ± 1.7 after 4, on embeddings | missed
#    at least the accuracy of DivDis on the truth, in each column | below in 11 of 17 columns | missed
#
# A learning rate of 0.0005 in place of 0.002 may help the convolutional network: the only seed measured so far reaches
# 84.7 under the worst truth.
#
# The next tables have differences in points, paired by seed, mean ± standard error. Without a shortcut,
# ``underspecified()`` − ensemble, before any answer and after 4 answers about the rule:
#
# .. csv-table::
#    :delim: |
#    :header: no shortcut | before | after 4 answers
#
#    dominoes, 40 labels | 0.6 ± 0.5 | 0.3 ± 1.5
#    dominoes, 200 labels | 0.1 ± 0.1 | 0.0 ± 0.2
#    dominoes, 1,000 labels | −0.0 ± 0.1 | −0.2 ± 0.3
#    table | 2.7 ± 0.4 | 3.1 ± 0.5
#    colored MNIST | 0.7 ± 0.3 | −0.5 ± 0.2
#    embeddings | 2.1 ± 0.2 | −3.6 ± 1.7
#
# No run on colored MNIST or embeddings warned, so ``suggest`` would ask these questions only with ``about="rule"``.
#
# ``underspecified()`` − DivDis after 4 answers:
#
# .. csv-table::
#    :delim: |
#    :header: column | truth | worst truth
#
#    dominoes, 1,000 labels | −0.0 ± 0.1 | 22.1 ± 0.7
#    20 labels | −1.9 ± 1.3 | 17.6 ± 3.3
#    40 labels | −2.2 ± 1.6 | 18.7 ± 1.4
#    100 labels | −5.5 ± 4.6 | 18.6 ± 6.6
#    200 labels | −1.3 ± 0.6 | 20.2 ± 1.1
#    10 % contradict | 31.7 ± 1.0 | 31.6 ± 1.0
#    30 % contradict | −1.8 ± 0.5 | 20.8 ± 0.4
#    50 % contradict | −1.2 ± 1.0 | 20.9 ± 1.5
#    three cues; DivDis with K = 3 | 1.8 ± 1.8 | 27.2 ± 0.6
#    table | 4.9 ± 2.0 | 24.5 ± 1.1
#    colored MNIST | −13.2 ± 2.7 | 1.9 ± 1.1
#    embeddings | 0.3 ± 1.4 | 0.6 ± 1.6
#    patch features | −4.9 ± 3.2 | −4.6 ± 3.0
#    convolutional network | −0.6 ± 2.1 | 5.8 ± 3.4
#    no shortcut, 40 labels | −0.8 ± 1.3 |
#    no shortcut, 200 labels | 0.6 ± 0.4 |
#    no shortcut, 1,000 labels | 0.1 ± 0.2 |
#
# Three columns are missed by more than two standard errors: 200 labels, 30 % contradicting and colored MNIST. DivDis
# is given the information that both rules are balanced, like ``balanced=True``, which misses nine columns. Under the
# worst truth ``underspecified()`` is ahead except on patch features, because two particles cannot be four rules.
#
# Other settings
# --------------
#
# α from 1.5 instead of 1, chosen on seeds 11 and 12, is not better on the dominoes: it reaches 93.0 ± 1.6 under the
# worst truth; on colored MNIST it reaches 80.4 ± 12.9. ``ReferencePrior(order=3, alpha=2, final_alpha=0.3)``, chosen on the
# same seeds, pushes particles apart where they agree. It reaches 84.9 ± 3.3 on colored MNIST and 81.4 ± 4.9 under its
# worst truth (DivDis: 68.4 ± 2.0), and 92.9 ± 0.6 under the worst truth of the first table. Use it if you expect a rule
# that is hard to learn.
#
# ``python -m experiments.shortcuts experiments/shortcuts.jsonl --table`` prints all numbers.
