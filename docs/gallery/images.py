# %% [markdown]
# # Your own images
#
# A folder with one subfolder per class, and one for images without labels. That is all the preparation there is.
#
# To have something to look at, the first lines write such a folder: scanned digits as PNG files, three with a label of
# each of five classes. Skip them if you have your own folder.

# %%
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

digits = load_digits(n_class=5)
order = np.random.default_rng(0).permutation(len(digits.target))
seen = dict.fromkeys(range(5), 0)
for number, i in enumerate(order):
    label = int(digits.target[i])
    seen[label] += 1
    part, known = ("test", True) if number < 300 else ("train", seen[label] % 40 == 0)
    folder = Path("scans", part, f"digit {label}" if known else "unlabeled")
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray((digits.images[i] * 15.9).astype(np.uint8)).save(
        folder / f"{number}.png"
    )

# %% [markdown]
# What is in it, before anything is trained:

# %%
import refprior as rp

print(rp.data.survey("scans"))

# %% [markdown]
# A recipe takes the folder in place of its own data. Digits may be moved, turned and partly covered, but never
# mirrored: `kind` says so. Images are resized to those of the recipe.

# %%
recipe = rp.recipes.with_data(rp.recipes.digits_ssl(), "scans", kind="digits")
short = {"steps": 120, "ema": 0.95, "evaluate_every": 120}
run = rp.train(rp.recipes.override(recipe, short))
images = run.task.test.inputs
print(f"{100 * run.evaluate().accuracy:.1f} % of {len(images)} test images")
run.task

# %% figure: Six test images that the particles are most sure of and six that they are least sure of, with their predicted class
import matplotlib.pyplot as plt

order, named = run.uncertainty(images).total.argsort(), run.predict(images)
figure, axes = plt.subplots(2, 6, figsize=(8, 3.1), layout="constrained")
for row, chosen, title in (
    (0, order[:6], "most sure"),
    (1, order.flip(0)[:6], "least sure"),
):
    for ax, i in zip(axes[row], chosen.tolist(), strict=True):
        ax.imshow(images[i, 0], cmap="gray_r")
        ax.set(xticks=[], yticks=[], title=named[i])
    axes[row, 0].set_ylabel(title)
plt.show()

# %% [markdown]
# On the command line: `refprior data show scans/ --views` to look at the views, then
# `refprior train digits_ssl --data scans/ --out runs/scans`. [Choose views](../guides/views.md) says how to pick views for
# photographs and other things, and [Data](../data.md#your-data) what a folder may look like.
