# %% [markdown]
# # Your own images
#
# A folder with one subfolder per class, and one for images without labels. That is all the preparation there is.
#
# To have something to look at, the first lines draw such a folder. Skip them if you have one.

# %%
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

random = np.random.default_rng(0)
DRAW = {"disc": "ellipse", "square": "rectangle", "triangle": "regular_polygon"}


def picture(kind: str) -> Image.Image:
    image = Image.fromarray(random.integers(0, 110, (48, 48, 3), dtype=np.uint8)).filter(ImageFilter.GaussianBlur(1))
    x, y, r = *random.integers(16, 32, 2), random.integers(8, 14)
    place = (x, y, r) if kind == "triangle" else (x - r, y - r, x + r, y + r)
    more = {"n_sides": 3, "rotation": int(random.integers(-20, 20))} if kind == "triangle" else {}
    getattr(ImageDraw.Draw(image), DRAW[kind])(place, fill=tuple(random.integers(90, 256, 3).tolist()), **more)
    return image


for number in range(330):
    kind = list(DRAW)[number % 3]
    folder = (
        Path("photos", "train", kind if number < 12 else "unlabelled") if number < 240 else Path("photos/test", kind)
    )
    folder.mkdir(parents=True, exist_ok=True)
    picture(kind).save(folder / f"{number}.png")

# %% [markdown]
# What is in it, before anything is trained:

# %%
import refprior as rp

print(rp.data.survey("photos"))

# %% [markdown]
# A recipe takes the folder in place of its own data. Shapes have no up and no left, so the views of `objects` fit:
# moved and mirrored, then colours changed and a part covered.

# %%
recipe = rp.recipes.with_data(rp.recipes.mnist_ssl(), "photos", kind="objects")  # resized to 28×28
short = {"steps": 80, "evaluate_every": 80, "particles": 2, "unlabelled_batch": 64}
run = rp.train(rp.recipes.override(recipe, short))
print(
    f"{100 * run.evaluate().accuracy:.0f} % of {len(run.task.test)} test images, with {len(run.task.labelled)} labels"
)

# %% figure: Test images that the particles are least and most sure of, with their predicted class
import matplotlib.pyplot as plt

images = run.task.test.images
unsure = run.uncertainty(images).total
order, named = unsure.argsort(), run.predict(images)
figure, axes = plt.subplots(2, 6, figsize=(8, 3.1), layout="constrained")
for row, chosen, title in ((0, order[:6], "most sure"), (1, order.flip(0)[:6], "least sure")):
    for ax, i in zip(axes[row], chosen.tolist(), strict=True):
        ax.imshow(images[i].permute(1, 2, 0))
        ax.set(xticks=[], yticks=[], title=named[i])
    axes[row, 0].set_ylabel(title)
plt.show()

# %% [markdown]
# On the command line: `refprior data show photos/ --views` to look at the views, then `refprior train digits_ssl
# --data photos/ --kind objects --set task.size=24`. [Choose views](../guides/views.md) says how to pick them, and
# [Data](../data.md#your-own-data) what a folder may look like.
