"""One browser for all tests that need it: its start takes seconds."""

from collections.abc import Iterator

import pytest

from tests.explore.browser import Browser, chromium


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("browser")) as found:
        yield found
