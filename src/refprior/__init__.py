"""Reference priors: exact for small models, as particles for deep networks."""

import os

# Torch's own switch, read when it allocates first: large tensors lie in large pages. The gradient of thousands of
# particles is a fresh tensor each step, and on small pages its page faults cost more than the product that fills it.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

__version__ = "0.1.0"
