"""Channels: models p(z | w) on a box of parameters."""
