"""Names of folders from settings: safe, short, and different for different settings."""

import re

from refprior.recipes import Cell
from refprior.recipes.sweeps import folder_name


def test_a_name_says_the_settings() -> None:
    assert folder_name({"labels": "100", "method": "FixMatch"}, "digits_ssl") == "digits_ssl,labels=100,method=FixMatch"
    assert folder_name({"method.tau": "1/3"}) == "method.tau=1:3"
    assert folder_name({}, "digits_ssl") == "digits_ssl"
    assert Cell("digits_ssl", {}, 0).name == "default/seed-0"


def test_what_a_name_should_not_hold_is_replaced() -> None:
    one, other = (folder_name({"data": f"a{c}b\n'*"}) for c in "?!")
    assert re.fullmatch(r"data=a_b___-[0-9a-f]{8}", one)
    assert one != other


def test_a_long_name_is_cut_and_kept_apart() -> None:
    one, other = (folder_name({"data": 300 * "ü" + c}) for c in "ab")
    assert one != other
    assert max(len(one.encode()), len(other.encode())) < 120
