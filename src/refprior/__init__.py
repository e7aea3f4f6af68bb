"""Reference priors: exact for small models, as particles for deep networks."""

__version__ = "0.1.0"
